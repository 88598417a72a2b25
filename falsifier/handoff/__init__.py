"""Hand-off: what a search leaves open goes on to a verifier.

`Handoff` is what is carried on (JSON), an adapter takes it and returns an `Outcome`, `hand_over` runs an adapter and
believes nothing: what it claims to satisfy the query passes the door. Adapters are found through entry points.
"""
