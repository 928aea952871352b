-- Connections, troubled ones first
with {links}
select sensor, connection, coalesce(protocol, 'unknown') as protocol, client, server, handshake, ended, first_us, duration_us,
       messages_to_server, messages_to_client, bytes_to_server, bytes_to_client, violations, quarantined_bytes,
       to_json(facts)::varchar as facts, 'c:' || connection{at} as conversation
from links
order by violations desc, quarantined_bytes desc, handshake = 'refused' desc, ended = 'reset' desc, first_us,
         sensor, connection
limit 200
