-- Violations: the first of each rule, then the second of each, and so on
with broken as (
    select 'state' as source, epoch_us(ts) as ts_us, protocol, rule, message, null as path, state, detail,
           direction, "offset", length::bigint as length, sensor, connection
    from gold_violations
    union all
    select 'bytes', epoch_us(ts), coalesce(protocol, 'unknown'), rule, null, path, null, detail, direction,
           "offset", length, sensor, connection
    from silver_quarantine),
firsts as (
    select source, unnest(min({'ts_us': coalesce(ts_us, 9e18::bigint), 'sensor': sensor, 'connection': connection,
                               'direction': direction, 'offset': "offset"}, {most})) as place
    from broken group by source, protocol, rule)
select source, ts_us, protocol, rule, message, path, state, detail, direction, "offset", length, sensor, connection,
       case when size.messages <= {whole} then 'c:' || connection{at}
            else 'c:' || connection || ':' || if(direction = 'to_server', 's', 'c') || ':' || "offset"{at}
       end as conversation, null as event
from broken
semi join (select source, place.sensor as sensor, place.connection as connection, place.direction as direction,
                  place."offset" as "offset"
           from firsts) using (source, sensor, connection, direction, "offset")
left join (select sensor, connection, sum(messages) as messages
           from (select sensor, connection, messages from accounting
                 union all
                 select sensor, connection, 1 from silver_quarantine)
           group by sensor, connection) as size using (sensor, connection)
order by row_number() over (partition by source, protocol, rule order by ts_us, sensor, connection, direction, "offset"),
         source desc, protocol, rule
limit 300
