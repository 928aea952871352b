-- Who talks to whom
with {links}
select coalesce({client_names},
                nullif(regexp_replace(client, ':[0-9]+$', ''), ''), 'unknown') as client,
       coalesce(nullif(server, ''), 'unknown') as server, coalesce(protocol, 'unknown') as protocol,
       count(*) as connections,
       sum(messages_to_server)::bigint as messages_to_server, sum(messages_to_client)::bigint as messages_to_client,
       sum(bytes_to_server + bytes_to_client)::bigint as bytes, sum(violations)::bigint as violations,
       sum(quarantined_bytes)::bigint as quarantined_bytes
from links
group by all
order by sum(links.violations) + sum(links.quarantined_bytes) > 0 desc, bytes desc, client, server, protocol
limit 100
