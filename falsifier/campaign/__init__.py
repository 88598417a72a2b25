"""Campaigns: many instances in one run. Apart from each other: what is to be done (`plan`), the running of it (`run`),
and what is kept of it (`record`).
"""
