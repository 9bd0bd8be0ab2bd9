"""What others have recorded, read in; commands for their tools, written out."""
