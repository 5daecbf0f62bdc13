-- == A statement a paragraph. data/answers.json has what MySQL 9.7 says to each; see ../record.py.

-- == CHANGE REPLICATION FILTER

change replication filter replicate_do_db=(a,`b c`,a)

CHANGE REPLICATION FILTER Replicate_Do_DB = (), Replicate_Ignore_DB = (), Replicate_Do_Table = (), Replicate_Ignore_Table = (), Replicate_Wild_Do_Table = (), Replicate_Wild_Ignore_Table = (), Replicate_Rewrite_DB = ()

CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,db2,`db32`, `db,3`), REPLICATE_DO_DB = (my_db3, my_db4), Replicate_Ignore_DB = (my_initfiledb3)

change replication filter replicate_do_db=('a')

change replication filter replicate_do_db=("a")

change replication filter replicate_do_db=(select)

change replication filter replicate_do_db=(channel, filter, replica, slave, master, binlog, status)

change replication filter replicate_do_db=(a, for)

change replication filter replicate_do_db=(a.b)

change replication filter replicate_do_db=(a b)

change replication filter replicate_do_db=(a,)

change replication filter replicate_do_db=(,a)

change replication filter replicate_do_db=a

change replication filter replicate_do_db

change replication filter replicate_do_db=

change replication filter replicate_do_db=(

change replication filter replicate_do_db=(a

change replication filter replicate_do_db=(a),

change replication filter

change replication

change

change replication filters replicate_do_db=(a)

change replication filter do_db=(a)

change replication filter replicate_do_db:=(a)

change replication filter replicate-do-db=(a)

change replication filter replicate_do_db==(a)

change replication filter replicate_do_db=(a) x

change replication filter replicate_do_db=(a);

change replication filter replicate_do_db=(a);;

change replication filter replicate_do_db=(a); x

change replication filter replicate_do_db=(1a, 0xg, 1e, $a, é, ñ)

change replication filter replicate_do_db=(1)

change replication filter replicate_do_db=(1.5)

change replication filter replicate_do_db=(1e5)

change replication filter replicate_do_db=(0x5)

change replication filter replicate_do_db=(x'61')

change replication filter replicate_do_db=(a-b)

change replication filter replicate_do_db=(@a)

change replication filter replicate_do_db=(?)

change replication filter replicate_do_db=(\a)

change replication filter replicate_do_db=(``)

change replication filter replicate_do_db=(`a``b`, ` c `)

change replication filter replicate_do_db=(`aaa)

change replication filter replicate_do_table=(a.b, `c`.`d e`)

change replication filter replicate_do_table=(b)

change replication filter replicate_do_table=('a.b')

change replication filter replicate_do_table=(`a.b`)

change replication filter replicate_do_table=(a.select)

change replication filter replicate_do_table=(a. select)

change replication filter replicate_do_table=(a .b, c . d, e. f)

change replication filter replicate_do_table=(a.1b, c.2, d.1e5, e.0x5)

change replication filter replicate_do_table=(a .1)

change replication filter replicate_do_table=(a.)

change replication filter replicate_do_table=(.a)

change replication filter replicate_do_table=(a.b.c)

change replication filter replicate_do_table=(``.b)

change replication filter replicate_do_table=(`a `.b)

change replication filter replicate_do_table=(a.`b `, a.``)

change replication filter replicate_ignore_table=(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b)

change replication filter replicate_ignore_table=(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b)

change replication filter replicate_ignore_table=(ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé.b)

change replication filter replicate_ignore_table=(éééééééééééééééééééééééééééééééééééééééé.b)

change replication filter replicate_wild_do_table=('a.b', "c%.d_")

change replication filter replicate_wild_do_table=('a\%b.c\_d\\e\'f''g')

change replication filter replicate_wild_do_table=('ab')

change replication filter replicate_wild_do_table=('a.b', 'ab' 5 foo

change replication filter replicate_wild_ignore_table=('')

change replication filter replicate_wild_ignore_table=(a.b)

change replication filter replicate_wild_ignore_table=('a.b' '.c')

change replication filter replicate_wild_ignore_table=('a.b

change replication filter replicate_wild_ignore_table=('a.b

change replication filter replicate_wild_ignore_table=('a.
b')

change replication filter replicate_wild_ignore_table=('a\nb')

change replication filter replicate_wild_ignore_table=(N'a.b')

change replication filter replicate_wild_ignore_table=(_utf8mb4'a.b')

change replication filter replicate_rewrite_db=((a,b),(c,d),(a,e))

change replication filter replicate_rewrite_db=(())

change replication filter replicate_rewrite_db=((a))

change replication filter replicate_rewrite_db=((a,b,c))

change replication filter replicate_rewrite_db=((a,``))

change replication filter replicate_rewrite_db=(('a','b'))

change replication filter replicate_rewrite_db=(a,b)

change replication filter replicate_rewrite_db=((a,b),)

change replication filter replicate_rewrite_db=((a->b))

change replication filter replicate_rewrite_db=((`a->b`,c))

change replication filter replicate_do_db=(a) for

change replication filter replicate_do_db=(a) for channel

change replication filter replicate_do_db=(a) for channel x

change replication filter replicate_do_db=(a) for channel 'x'

change replication filter replicate_do_db=(a) for channel "x"

change replication filter replicate_do_db=(a) for channel 'x' 'y'

change replication filter replicate_do_db=(a) for channel 'x' for channel 'y'

change replication filter replicate_do_db=(a) for channel 'x', replicate_do_db=(b)

change replication filter replicate_do_db=(a) for channel 'a\nb'

-- == Where an error is

change replication filter
 replicate_do_db=(a)
 foo
 bar

 
   change replication filter
 replicate_do_db=(é 'é'

change replication filter replicate_do_db=(	'	ab	'
)

change replication filter 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'

change replication filter replicate_do_db=(é “é” éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé)

change replication filter replicate_do_db=(a “““““““““““““““““““““““““““““““““““““““““““““““

change replication filter replicate_do_db=(a a“““““““““““““““““““““““““““““““““““““““““““““““

change replication filter replicate_do_db=(a aa“““““““““““““““““““““““““““““““““““““““““““““““

-- == Comments

change /* */replication/**/filter/***/replicate_do_db=(a) foo

change replication filter replicate_do_db=(a) /* foo

change replication filter replicate_do_db=(a) */

change replication filter replicate_do_db=(a) -- for

change replication filter replicate_do_db=(a) --for

change replication filter replicate_do_db=(a) --

change replication filter replicate_do_db=(a) # for

change replication filter # comment
 replicate_do_db -- comment
 =(a) /* comment
 */ foo

change replication filter replicate_do_db=(a) /*! foo */

change replication filter replicate_do_db=(a) /*!80000foo */

change replication filter replicate_do_db=(a) /*!090700 foo */

change replication filter replicate_do_db=(a) /*!90600 foo */

change replication filter replicate_do_db=(a) /*!99999 foo */

change replication filter replicate_do_db=(a) /*!99999 /* x */ foo */

change replication filter replicate_do_db=(a) /*!99999 /* x */ foo

change replication filter replicate_do_db=(a) /* /* x */ foo */

change replication filter replicate_do_db=(a) /*!0907 foo */

change replication filter replicate_do_db=(a) /*M! foo */

change replication filter replicate_do_db=(a) /*+ foo */

change replication filter replicate_do_db /*! = */ (a) foo

change replication filter replicate_do_db=(a) /*! for channel ''

change replication filter replicate_do_db=(a) /*! -- */ for
 */ foo

/*! change replication filter */ replicate_do_db=(a) foo

;

-- == CHANGE REPLICATION SOURCE

change replication source

change replication source to

change replication source to foo=1

change replication source to source_host

change replication source to source_host=127.0.0.1

change replication source to source_host=a.b

change replication source to source_host=null

change replication source to source_host=n'a'

change replication source to source_host='a' 'b'

change replication source to source_host=concat('a')

change replication source to source_host='a\nb'

change replication source to source_host='a',

change replication source to source_host='a' source_port=1

change replication source to source_host='a', source_port=1, source_user="u", source_password='p' for channel 'c1'

change replication source to source_port='3306'

change replication source to source_port=-1

change replication source to source_port=

change replication source to source_port=99999999999999999999999 for channel 'c1'

change replication source to source_port=0x10 for channel 'c1'

change replication source to source_port=1.5 for channel 'c1'

change replication source to source_port=1e2 for channel 'c1'

change replication source to source_log_file='x', source_log_pos=0x10 for channel 'c1'

change replication source to source_log_file='x', source_log_pos=4e1 for channel 'c1'

change replication source to relay_log_file='x', relay_log_pos='5' for channel 'c1'

change replication source to ignore_server_ids=(1,2) for channel 'c1'

change replication source to ignore_server_ids=(1,2,) for channel 'c1'

change replication source to ignore_server_ids=() for channel 'c1'

change replication source to ignore_server_ids=('1') for channel 'c1'

change replication source to ignore_server_ids=1 for channel 'c1'

change replication source to source_heartbeat_period=1.5 for channel 'c1'

change replication source to source_heartbeat_period=4294967 for channel 'c1'

change replication source to source_heartbeat_period=4294967.1 for channel 'c1'

change replication source to source_heartbeat_period=-1 for channel 'c1'

change replication source to source_heartbeat_period='5' for channel 'c1'

change replication source to source_heartbeat_period=99999999, foo

change replication source to source_delay=2147483647 for channel 'c1'

change replication source to source_delay=2147483648 for channel 'c1'

change replication source to source_delay=99999999999999999999999 for channel 'c1'

change replication source to source_password='12345678901234567890123456789012' for channel 'c1'

change replication source to source_password='123456789012345678901234567890123' for channel 'c1'

change replication source to source_password='é2345678901234567890123456789012' for channel 'c1'

change replication source to source_connect_retry=10, source_retry_count=5, source_auto_position=1 for channel 'c1'

change replication source to source_ssl=1, source_ssl_ca='a', source_ssl_verify_server_cert=0, source_tls_version='', source_tls_ciphersuites=null, get_source_public_key=1 for channel 'c1'

change replication source to require_row_format=1, gtid_only=0, network_namespace='', source_compression_algorithms='zstd', source_zstd_compression_level=3 for channel 'c1'

change replication source to require_table_primary_key_check=stream for channel 'c1'

change replication source to require_table_primary_key_check=foo for channel 'c1'

change replication source to assign_gtids_to_anonymous_transactions=off for channel 'c1'

change replication source to assign_gtids_to_anonymous_transactions=foo for channel 'c1'

change replication source to privilege_checks_user=null for channel 'c1'

change replication source to privilege_checks_user='root'@'localhost' for channel 'c1'

change replication source to source_host='a' for channel

change replication source for channel 'c1'

-- == START, STOP, RESET

start

start foo

start replica foo

start replica io_thread, sql_thread for channel 'z'

start replica relay_thread for channel 'z'

start replica io_thread, io_thread for channel 'z'

start replica io_thread sql_thread

start replica io_thread,

start replica , io_thread

start replica 5

start replica for

start replica for channel

start replica for channel x

start replica for channel 'z' io_thread

start replica until

start replica until foo='x'

start replica until source_log_file='x', source_log_pos=4 for channel 'z'

start replica until source_log_pos=4, source_log_file='x' for channel 'z'

start replica until relay_log_file='x', relay_log_pos=4 for channel 'z'

start replica until source_log_file='x' for channel 'z'

start replica until source_log_pos=4 for channel 'z'

start replica until source_log_file='x', relay_log_pos=4 for channel 'z'

start replica until source_log_file='x', source_log_pos='4' for channel 'z'

start replica until source_log_file='x', source_log_pos=0x4 for channel 'z'

start replica until sql_before_gtids='3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5' for channel 'z'

start replica until sql_after_gtids='3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5', source_log_pos=5 for channel 'z'

start replica until sql_before_gtids='x', sql_after_gtids='y' for channel 'z'

start replica until sql_after_mts_gaps=1

start replica user='a' password='b' for channel 'z'

start replica password='b' user='a'

start replica user='a', password='b'

start replica user=a

start replica sql_thread user='a' for channel 'z'

start replica sql_thread user='' for channel 'z'

start replica user='a' default_auth='b' plugin_dir='c' for channel 'z'

start replica user='a' until source_log_file='x', source_log_pos=4

stop

stop foo

stop replica foo

stop replica io_thread, sql_thread for channel 'z'

stop replica until

stop replica user='a'

reset

reset foo

reset replica foo

reset replica all foo

reset replica for channel 'z'

reset replica all for channel 'z'

reset replica all for channel z

-- == SHOW

show

show replica

show replica foo

show replica status foo

show replica status like 'x'

show replica status for channel 'z'

show replica status for channel

show replicas

show replicas foo

show binary

show binary foo

show binary log

show binary log foo

show binary log status

show binary log status foo

show binary logs

show binary logs foo

show binlog

show binlog foo

show binlog events foo

show binlog events in

show binlog events in 5

show binlog events in 'x' 'y'

show binlog events in 'x' from

show binlog events in 'x' from 'y'

show binlog events in 'x' from -1

show binlog events in 'x' from 1e1

show binlog events in 'x' from 0x10

show binlog events in 'x' from 99999999999999999999999999

show binlog events from 4 in 'x'

show binlog events limit

show binlog events limit 1,

show binlog events limit 1, 2

show binlog events limit 1 offset 2

show binlog events limit 18446744073709551615

show binlog events limit 18446744073709551616

show binlog events limit 'a'

show binlog events limit a

show binlog events limit select

show binlog events limit -1

show binlog events limit 1e1

show binlog events limit 0x10

show binlog events limit 1,2,3

show binlog events limit 1 from 4

show binlog events for channel 'x'

show relaylog

show relaylog events in 'x' from 4 limit 1, 2 for channel 'z'

show relaylog events for channel 'z'

show relaylog events for channel z

-- == PURGE

purge

purge foo

purge binary

purge binary logs

purge binary logs to

purge binary logs to 5

purge binary logs to x

purge binary logs to 'x'

purge binary logs to 'x' foo

purge binary logs before

purge binary logs before '2020-01-01'

purge binary logs before '2020-01-01 10:10:10.5'

purge binary logs before '2020-01-01 10:10:10' foo

purge binary logs before '2020-01-01 00:00:00+05:00'

purge binary logs before '20-1-1'

purge binary logs before '2020/1/1T10.10'

purge binary logs before '20200101101010'

purge binary logs before 20200101101010

purge binary logs before timestamp'2020-01-01 10:10:10'

purge binary logs before timestamp '2020-13-01 10:10:10'

purge binary logs before now() - interval 30 year

purge binary logs before now() - interval 30

purge binary logs before now() - interval 30 foo

purge binary logs before now() - interval 30 days

purge binary logs before now() - interval

purge binary logs before now() -

purge binary logs before now() foo

purge binary logs before now(7)

purge binary logs before now

purge binary logs before foo

purge binary logs before date_sub(now(3), interval '360' month) - interval -1 day

purge binary logs before date_sub(now(), interval 30 year

purge binary logs before date_sub(now(), 30)

purge binary logs before current_timestamp - interval 30 year

purge binary logs before curdate() - interval 30 year

purge binary logs before 'foo'

purge binary logs before ''

purge binary logs before null

purge binary logs before '2020-13-01'

purge binary logs before now() - interval '30 1' year_month
