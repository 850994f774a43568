package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/api"
)

// Submit hands in a job, or an array of them, and returns their numbers in
// order; of an array the first is that of the whole.
func (c *Client) Submit(ctx context.Context, spec api.JobSpec) ([]string, error) {
	if err := sendable(spec); err != nil {
		return nil, err
	}
	var out struct {
		IDs []string `json:"ids"`
	}
	err := c.call(ctx, http.MethodPost, "/v1/jobs", spec, &out)
	return out.IDs, err
}

// sendable refuses text that JSON would carry as something else.
func sendable(spec api.JobSpec) error {
	for i, arg := range spec.Command {
		if !utf8.ValidString(arg) {
			return api.Refuse(api.Invalid, "word %d of the command, %q, is no UTF-8 text", i+1, arg)
		}
	}
	for name, value := range spec.Env {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return api.Refuse(api.Invalid, "the variable %q of the environment is no UTF-8 text", name)
		}
	}
	if !utf8.ValidString(spec.Dir) {
		return api.Refuse(api.Invalid, "the name of the folder %q is no UTF-8 text", spec.Dir)
	}
	return nil
}

// Jobs lists jobs by number.
func (c *Client) Jobs(ctx context.Context, q api.Query) ([]api.Job, error) {
	path := "/v1/jobs"
	if v := values(q); len(v) > 0 {
		path += "?" + v.Encode()
	}
	var out struct {
		Jobs []api.Job `json:"jobs"`
	}
	err := c.call(ctx, http.MethodGet, path, nil, &out)
	return out.Jobs, err
}

// values writes a query as its URL has it.
func values(q api.Query) url.Values {
	v := url.Values{}
	set := func(name, text string) {
		if text != "" {
			v.Set(name, text)
		}
	}
	moment := func(name string, t time.Time) {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	states := make([]string, len(q.States))
	for i, s := range q.States {
		states[i] = string(s)
	}
	set("id", strings.Join(q.IDs, ","))
	set("state", strings.Join(states, ","))
	set("user", strings.Join(q.Users, ","))
	set("tenant", q.Tenant)
	set("name", q.Name)
	moment("since", q.Since)
	moment("until", q.Until)
	if q.All {
		v.Set("all", "true")
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Page != 0 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	set("after", q.After.String())
	return v
}

// Job tells how one job stands.
func (c *Client) Job(ctx context.Context, id string) (api.Job, error) {
	return get[api.Job](ctx, c, jobPath(id))
}

// Why explains a job.
func (c *Client) Why(ctx context.Context, id string) (api.Why, error) {
	return get[api.Why](ctx, c, jobPath(id)+"/why")
}

// Do carries out a verb on a job: cancel, hold, release or requeue.
func (c *Client) Do(ctx context.Context, verb string, id string) error {
	return c.call(ctx, http.MethodPost, jobPath(id)+"/"+url.PathEscape(verb), nil, nil)
}

// Resize gives a running job another size.
func (c *Client) Resize(ctx context.Context, id string, r api.Resize) error {
	return c.call(ctx, http.MethodPost, jobPath(id)+"/resize", r, nil)
}

// Input types at the terminal of a job.
func (c *Client) Input(ctx context.Context, id string, in api.Input) error {
	return c.call(ctx, http.MethodPost, jobPath(id)+"/input", in, nil)
}

// LogOptions say which part of a job's output is wanted. The zero value is
// nothing of the last run: Tail -1 is all of it.
type LogOptions struct {
	Run    int  // from 1; 0: the last one
	Tail   int  // so many last lines; -1: all
	Follow bool // go on until the run is over
}

// Logs opens what a run of a job wrote. It ends early with an error when the
// daemon does.
func (c *Client) Logs(ctx context.Context, id string, o LogOptions) (io.ReadCloser, error) {
	v := url.Values{"tail": {strconv.Itoa(o.Tail)}, "follow": {strconv.FormatBool(o.Follow)}, "run": {strconv.Itoa(o.Run)}}
	body, err := c.open(ctx, http.MethodGet, jobPath(id)+"/logs?"+v.Encode(), nil, nil)
	if err != nil {
		return nil, err
	}
	return &stream{ReadCloser: body, ctx: ctx, c: c}, nil
}

// stream gives errors of a body that is read for long as sentences.
type stream struct {
	io.ReadCloser
	ctx context.Context
	c   *Client
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = s.c.explain(s.ctx, err)
	}
	return n, err
}

// Node describes the machine.
func (c *Client) Node(ctx context.Context) (api.Node, error) {
	return get[api.Node](ctx, c, "/v1/node")
}

// Nodes lists nodes by name: of one machine, itself.
func (c *Client) Nodes(ctx context.Context, q api.NodeQuery) ([]api.Node, error) {
	v := url.Values{}
	for name, list := range map[string][]string{"name": q.Names, "pool": q.Pools, "type": q.Types, "state": q.States} {
		if len(list) > 0 {
			v.Set(name, strings.Join(list, ","))
		}
	}
	if q.Where != "" {
		v.Set("where", q.Where)
	}
	if q.Devices {
		v.Set("devices", "true")
	}
	path := "/v1/nodes"
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	out, err := get[struct {
		Nodes []api.Node `json:"nodes"`
	}](ctx, c, path)
	return out.Nodes, err
}

// Status is the whole at one glance.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return get[api.Status](ctx, c, "/v1/status")
}

// Drain puts the machine, or some of its devices, out of use, or back.
func (c *Client) Drain(ctx context.Context, d api.Drain) error {
	return c.call(ctx, http.MethodPost, "/v1/node/drain", d, nil)
}

// Reclaim takes the machine, or some of its devices, back from the jobs there, or lends it to them. It returns the
// names of devices or nodes that were meant; none: the whole machine.
func (c *Client) Reclaim(ctx context.Context, r api.Reclaim) ([]string, error) {
	var out api.Reclaimed
	err := c.call(ctx, http.MethodPost, "/v1/node/reclaim", r, &out)
	return out.Devices, err
}

// SetPolicy changes the policy, written as in norn sim: tiresias(limits=3600).
func (c *Client) SetPolicy(ctx context.Context, choice string) error {
	return c.call(ctx, http.MethodPut, "/v1/policy", map[string]string{"policy": choice}, nil)
}

// Fsck checks what the daemon keeps, and with repair mends what can be mended.
func (c *Client) Fsck(ctx context.Context, repair bool) (api.Fsck, error) {
	var out api.Fsck
	method := http.MethodGet
	if repair {
		method = http.MethodPost
	}
	err := c.call(ctx, method, "/v1/fsck", nil, &out)
	return out, err
}

// EventLog copies the event log: whole logs, one behind the other, oldest first.
func (c *Client) EventLog(ctx context.Context, w io.Writer) error {
	body, err := c.open(ctx, http.MethodGet, "/v1/log", nil, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, &stream{ReadCloser: body, ctx: ctx, c: c})
	return err
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	err := c.call(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }
