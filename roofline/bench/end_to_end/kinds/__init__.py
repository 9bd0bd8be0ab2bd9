"""Measured rows that no plain server served: each kind is read, predicted and judged apart.

Constants of engines are never fitted to them.
"""
