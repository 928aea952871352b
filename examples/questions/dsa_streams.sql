-- Which paths are subscribed to or listed, how soon comes the first value, and how many follow?
-- A stream is one exchange: its row is there when it ended. Streams that go on are in gold_open.
select address as path, message, count(*) as streams, round(percentile(latency_us, 0.5) / 1000, 3) as first_value_ms,
       sum(replies) as values, count_if(outcome = 'error') as errors
from gold_exchanges
where protocol = 'dsa' and message in ('subscribe_request', 'list_request')
group by address, message
order by values desc, path, message
limit 20
