-- A few connections, exchanges and transactions of each protocol, the same ones every time.
select id from (
    select protocol, 'c:' || connection{at} as id, 0 as sort,
           row_number() over (partition by protocol order by sum(messages) > 80, sum(messages) desc, sensor, connection) as n
    from accounting group by protocol, sensor, connection
    union all
    select protocol, id, 1, row_number() over (partition by protocol order by md5(id))
    from (select *, 'x:' || connection || ':' || if(direction = 'to_server', 's', 'c') || ':' || request_offset{at} as id
          from gold_exchanges)
    where outcome = 'ok'
    union all
    select protocol, 't:' || xid_format || ':' || gtrid{at}, 2,
           row_number() over (partition by protocol, outcome order by first_ts, sensor, gtrid)
    from gold_transactions where outcome <> 'in_doubt')
where n <= 3
order by n, sort, protocol, id
