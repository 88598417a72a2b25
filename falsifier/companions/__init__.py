"""Companions: processes that search the same instance beside the main one, from other random states.

A search of a small network keeps one core busy. What its first pass leaves open falls to restarts as a rule, and those
can be made anywhere: a companion reads the same files, draws otherwise, and shows a point once its own door confirms
it. The main process asks its own door, and believes nobody's.
"""
