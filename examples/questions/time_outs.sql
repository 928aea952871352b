-- Which requests timed out, and did a reply come later after all?
select protocol, address, limit_us / 1000 as limit_ms, count(*) as time_outs, count(reply_ts) as answered_late,
       round(max(latency_us) / 1000, 1) as latest_ms
from gold_exchanges
where outcome = 'timeout'
group by protocol, address, limit_us
order by time_outs desc, protocol, address
limit 20
