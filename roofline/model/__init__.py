"""Networks: what an architecture is made of, and how to read one."""
