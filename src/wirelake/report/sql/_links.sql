-- Connections that ended, and those that go on.
links as (
    select sensor, connection, protocol, client, server, handshake, coalesce(ended, 'not seen') as ended,
           epoch_us(first_ts) as first_us, duration_us, messages_to_server, messages_to_client,
           bytes_to_server, bytes_to_client, violations, quarantined_bytes, facts
    from gold_sessions
    union all
    select sensor, connection, protocol, client, address, 'unknown', 'open', epoch_us(since_ts), null,
           messages_to_server, messages_to_client, bytes_to_server, bytes_to_client,
           coalesce(violations, 0), quarantined_bytes, null
    from gold_open
    left join (select sensor, connection, min(client) as client
               from bronze_chunks
               semi join (from gold_open where kind = 'session') using (sensor, connection)
               group by sensor, connection) using (sensor, connection)
    left join (select sensor, connection,
                      coalesce(sum(messages) filter (direction = 'to_server'), 0)::bigint as messages_to_server,
                      coalesce(sum(messages) filter (direction = 'to_client'), 0)::bigint as messages_to_client,
                      coalesce(sum(bytes_in) filter (direction = 'to_server'), 0)::bigint as bytes_to_server,
                      coalesce(sum(bytes_in) filter (direction = 'to_client'), 0)::bigint as bytes_to_client,
                      sum(bytes_quarantined)::bigint as quarantined_bytes
               from accounting group by sensor, connection) using (sensor, connection)
    left join (select sensor, connection, count(*) as violations
               from gold_violations group by sensor, connection) using (sensor, connection)
    where kind = 'session')
