"""Calibrations that are shipped: made of measurements, a file for each kernel, and found again."""
