package server

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/norn-scheduler/norn/api"
)

// Switch is a Backend that hands on to another one, which may be replaced while requests
// come: by a daemon that begins anew. Set must have been called before it is asked.
type Switch struct{ to atomic.Pointer[Backend] }

// Set has requests go to a Backend from now on.
func (s *Switch) Set(b Backend) { s.to.Store(&b) }

func (s *Switch) now() Backend { return *s.to.Load() }

// Submit implements Backend, as do all that follow.
func (s *Switch) Submit(ctx context.Context, c Caller, spec api.JobSpec) ([]string, error) {
	return s.now().Submit(ctx, c, spec)
}

func (s *Switch) Jobs(ctx context.Context, c Caller, q api.Query) ([]api.Job, error) {
	return s.now().Jobs(ctx, c, q)
}

func (s *Switch) Why(ctx context.Context, c Caller, id string) (api.Why, error) {
	return s.now().Why(ctx, c, id)
}

func (s *Switch) Forecast(ctx context.Context, c Caller) (api.Forecast, error) {
	return s.now().Forecast(ctx, c)
}

func (s *Switch) Do(ctx context.Context, c Caller, v Verb, id string) error {
	return s.now().Do(ctx, c, v, id)
}

func (s *Switch) Resize(ctx context.Context, c Caller, id string, r api.Resize) error {
	return s.now().Resize(ctx, c, id, r)
}

func (s *Switch) Input(ctx context.Context, c Caller, id string, in api.Input) error {
	return s.now().Input(ctx, c, id, in)
}

func (s *Switch) Output(ctx context.Context, c Caller, id string, run int) (Output, error) {
	return s.now().Output(ctx, c, id, run)
}

func (s *Switch) Node(ctx context.Context) (api.Node, error) { return s.now().Node(ctx) }

func (s *Switch) Nodes(ctx context.Context, c Caller, q api.NodeQuery) ([]api.Node, error) {
	return s.now().Nodes(ctx, c, q)
}

func (s *Switch) Status(ctx context.Context) (api.Status, error) { return s.now().Status(ctx) }

func (s *Switch) Drain(ctx context.Context, c Caller, d api.Drain) error {
	return s.now().Drain(ctx, c, d)
}

func (s *Switch) Reclaim(ctx context.Context, c Caller, r api.Reclaim) ([]string, error) {
	return s.now().Reclaim(ctx, c, r)
}

func (s *Switch) SetPolicy(ctx context.Context, c Caller, choice string) error {
	return s.now().SetPolicy(ctx, c, choice)
}

func (s *Switch) Plan(ctx context.Context, c Caller, q api.WhatIf) (api.Plan, error) {
	return s.now().Plan(ctx, c, q)
}

func (s *Switch) Log(ctx context.Context, c Caller, w io.Writer) error {
	return s.now().Log(ctx, c, w)
}

func (s *Switch) Fsck(ctx context.Context, c Caller, repair bool) (api.Fsck, error) {
	return s.now().Fsck(ctx, c, repair)
}

func (s *Switch) Watch(ctx context.Context, c Caller, since int64) (<-chan api.Event, error) {
	return s.now().Watch(ctx, c, since)
}

func (s *Switch) TaskOf(token string) (Task, error) { return s.now().TaskOf(token) }

func (s *Switch) Metrics(ctx context.Context) (Metrics, error) { return s.now().Metrics(ctx) }

func (s *Switch) Ready() error { return s.now().Ready() }

var _ Backend = (*Switch)(nil)
