"""After a first witness: more of them, deeper ones, nearer ones. Stages, each for one wish, on the search's own run.

They ask the door themselves (`Ask`), since here a point that the door confirms ends nothing.
"""
