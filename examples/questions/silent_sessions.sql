-- Which connections went silent, and do they have heartbeats that should have prevented it?
-- The longest gap is between two messages of one side; a side that sends fewer than two has none.
select protocol, client, server, heartbeats,
       round(longest_gap_to_server_us / 1e6, 3) as client_silent_s,
       round(longest_gap_to_client_us / 1e6, 3) as server_silent_s,
       round(duration_us / 1e6, 3) as seconds
from gold_sessions
where greatest(longest_gap_to_server_us, longest_gap_to_client_us) is not null
order by greatest(longest_gap_to_server_us, longest_gap_to_client_us) desc, client
limit 20
