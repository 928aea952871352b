"""The demonstration: live traffic with faults, recorded, turned into a lake and a report."""
