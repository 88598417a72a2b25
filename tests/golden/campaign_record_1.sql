create table campaign (key text primary key, value text not null) without rowid;
create table instance (
    id integer primary key, category text not null, onnx text not null, vnnlib text not null,
    repeat integer not null, stem text not null, time_limit real not null, networks text not null,
    query_path text, sample integer, network_hash text not null, query_hash text not null, fault text not null,
    unique (category, onnx, vnnlib, repeat));
create table attempt (
    id integer primary key, instance_id integer not null references instance, session integer not null,
    worker text not null, started real not null, ended real, verdict text, reason text not null default '',
    prepare real not null default 0, seconds real not null default 0, evaluations integer not null default 0,
    margins text not null default '[]', disjuncts text not null default '[]', engine text not null default '',
    network_hash text not null, query_hash text not null);
create index attempt_of_instance on attempt (instance_id, id);
create table witness (
    attempt_id integer primary key references attempt, path text not null, sha256 text not null,
    class text not null, text blob not null, confirmed real not null);
create table progress (
    time real not null, session integer not null, open integer not null, falsified integer not null,
    lanes integer not null, evaluations integer not null, coverage real);
create view answer as
    select attempt.* from attempt join instance on instance.id = attempt.instance_id
    where attempt.id = (select max(a.id) from attempt a where a.instance_id = instance.id and a.verdict is not null
                        and a.network_hash = instance.network_hash and a.query_hash = instance.query_hash);
