"""Closed forms as they are published: lectures, books and papers, with their own omissions.

They are for checking and for ``convention="textbook"``; the engine's own cost model is in the
modules beside this package and counts differently where that is more accurate.
"""
