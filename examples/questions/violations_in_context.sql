-- Who broke which rule of the protocol, and which messages came just before and after?
-- The first five violations, each with the six messages of its connection that are nearest in time.
select violation.sensor, violation.protocol, violation.connection, violation.rule, violation.detail,
       round((unix_micros(message.ts) - unix_micros(violation.ts)) / 1000, 3) as ms_from_there,
       message.direction, message.message, message.address, message.correlation
from (select * from gold_violations as first order by ts, sensor, connection, first.offset limit 5) as violation
join silver_messages as message
    on message.sensor = violation.sensor and message.connection = violation.connection
    and message.ts between violation.ts - interval 1 second and violation.ts + interval 1 second
qualify row_number() over (partition by violation.sensor, violation.connection, violation.direction, violation.offset
                           order by abs(unix_micros(message.ts) - unix_micros(violation.ts)), message.offset) <= 6
order by violation.ts, violation.sensor, violation.connection, violation.offset, message.ts, message.offset
