-- Addresses with the most messages
select protocol, address, sum(messages)::bigint as messages, sum(bytes)::bigint as bytes,
       sum(requests)::bigint as requests
from gold_addresses
group by protocol, address
order by messages desc, bytes desc, protocol, address
limit 50
