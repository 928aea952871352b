"""Durable storage for live protocols: databases, batches with one sync, schemas and locks. It knows no protocol."""
