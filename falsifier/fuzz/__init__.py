"""Coverage-guided fuzzing of networks without a query: inputs that make a network fail, by an objective's word.

`space` says what inputs may be, `mutators` make new ones, `watch` runs them in batches with what is to be seen of the
inside, `coverage` says which are new, `objectives` which are hits; `loop` is the round that they go through. `findings`
replays hits on the original file, `minimise` makes them small, `store` keeps all of it in one folder.
"""
