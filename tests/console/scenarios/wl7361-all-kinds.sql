-- WL#7361 A: every option with a channel (the first colon separates, others are literal), channels that do not exist,
-- group replication channels, and several rewrites of one database.
-- server: --replicate-do-db=ch1:do --replicate-do-db=ch1:a:b --replicate-ignore-db=ch1:ignore
-- server: --replicate-do-table=ch1:db.t --replicate-ignore-table=ch1:db.u --replicate-wild-do-table=ch1:w%.%
-- server: --replicate-wild-ignore-table=ch1:v%.% --replicate-rewrite-db=ch1:from->to --replicate-rewrite-db=ch1:from->to2
-- server: --replicate-rewrite-db=g->h --replicate-rewrite-db=g->i --replicate-do-table=g.t --replicate-ignore-table=g.u
-- server: --replicate-do-table=g.a --replicate-do-table=g.b --replicate-wild-do-table=gw%.%
-- server: --replicate-wild-ignore-table=gv%.% --replicate-ignore-db=gi
-- server: --replicate-do-db=ch9:x --replicate-do-db=ch9:y --replicate-ignore-db=ch8:x --replicate-do-db=g
-- server: --replicate-do-db=group_replication_applier:x --replicate-ignore-db=group_replication_recovery:x
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch1'
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch2'
SELECT * FROM performance_schema.replication_applier_global_filters;
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
SHOW REPLICA STATUS FOR CHANNEL 'ch2';
