"""The DSA protocol, live: links that ask and reply over one connection, and the broker that they connect to."""
