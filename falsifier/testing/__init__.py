"""Contract suites for those who extend this package: subclass one in your tests, and pytest runs it on your part."""
