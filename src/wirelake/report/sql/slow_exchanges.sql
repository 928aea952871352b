-- Slowest requests
select epoch_us(request_ts) as request_us, sensor, protocol, address, message, latency_us, outcome, status, connection,
       'x:' || connection || ':' || if(direction = 'to_server', 's', 'c') || ':' || request_offset{at} as conversation
from gold_exchanges
where latency_us is not null
order by latency_us desc, conversation
limit 50
