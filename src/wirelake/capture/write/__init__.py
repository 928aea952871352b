"""Write capture files: packets of made-up TCP connections (pcap, pcapng) and taps."""
