-- Who talks to whom, in which protocol, and how much?
-- Ports of clients change with every connection, so clients are identified by their address.
select protocol, regexp_replace(client, ':[0-9]+$', '') as client_host, server,
       min(coalesce(facts['client_domain'], facts['user'], facts['name'], facts['client_dsid'])) as known_as,
       count(*) as connections,
       sum(messages_to_server) as messages_to_server, sum(messages_to_client) as messages_to_client,
       sum(bytes_to_server + bytes_to_client) as bytes
from gold_sessions
group by protocol, client_host, server
order by bytes desc, client_host
limit 20
