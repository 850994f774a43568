package server

import (
	"context"
	"log/slog"
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// quiet leaves out the log, which nobody reads in a benchmark.
func quiet(c *Config) { c.Log = slog.New(slog.DiscardHandler) }

// BenchmarkList is what norn ps asks for with 10,000 jobs in the queue.
func BenchmarkList(b *testing.B) {
	r := start(b, quiet)
	r.fake.add(me(b), 10_000)
	for b.Loop() {
		jobs, err := r.client.Jobs(context.Background(), api.Query{})
		if err != nil || len(jobs) != 10_000 {
			b.Fatal(len(jobs), err)
		}
	}
}

// BenchmarkSubmit is the way of one job over the socket, without the backend's
// part.
func BenchmarkSubmit(b *testing.B) {
	r := start(b, quiet)
	spec := api.JobSpec{Command: []string{"python3", "train.py"}, GPUs: api.Fixed(1), Env: map[string]string{"PATH": "/usr/bin", "HOME": "/root"}}
	for b.Loop() {
		if _, err := r.client.Submit(context.Background(), spec); err != nil {
			b.Fatal(err)
		}
	}
}
