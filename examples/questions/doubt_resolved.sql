-- Which transactions are in doubt at one sensor, and what do all sensors together say?
-- The end of a branch may have passed another sensor. What stays in doubt, nobody saw end.
select gtrid, single.sensor, single.outcome, everywhere.outcome as outcome_everywhere,
       array_join(everywhere.sensors, ', ') as sensors, single.first_ts
from gold_transactions as single
join transactions as everywhere using (protocol, xid_format, gtrid)
where single.outcome = 'in_doubt'
order by single.first_ts, gtrid, single.sensor
limit 40
