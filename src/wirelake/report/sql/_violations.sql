-- Number of violations
select (select count(*) from gold_violations) + (select count(*) from silver_quarantine) as total
