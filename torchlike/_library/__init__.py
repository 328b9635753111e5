"""Operators that users declare: schemas, registrations, and how a call finds its kernel."""
