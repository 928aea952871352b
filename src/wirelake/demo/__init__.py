"""The demonstration: live and generated traffic with faults, recorded, made into a lake and a report."""
