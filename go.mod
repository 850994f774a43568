module github.com/norn-scheduler/norn

go 1.26.8
