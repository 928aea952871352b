"""What runners run: one kind of task per file. A task writes files on the side and returns what the driver needs."""
