"""The demonstration: live and generated traffic with faults, recorded, turned into a lake and a report."""
