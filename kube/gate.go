package kube

import (
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// Gate is a Norn for those who come over the network: the cluster says who they are, and
// what they may. A person who may get Jobs of a namespace sees the jobs there. One who
// may update them holds, releases and cancels them. One who may operate on queues is an
// operator.
type Gate struct {
	server.Backend
	client kubernetes.Interface

	mu      sync.Mutex
	callers map[[sha256.Size]byte]known[server.Caller]
	may     map[right]known[bool]
}

// known is an answer of the API server that is believed until a moment.
type known[T any] struct {
	is    T
	until time.Time
}

// right is something that somebody may do with Jobs of a namespace, or may not.
type right struct{ token, verb, namespace string }

// person is somebody who has come with a token.
type person struct {
	token string // its checksum
	info  authentication.UserInfo
}

// For so long an answer of the API server is believed, and so many are kept.
const (
	believed = 10 * time.Second
	mostKept = 10_000
)

// NewGate stands before a Norn.
func NewGate(b server.Backend, client kubernetes.Interface) *Gate {
	return &Gate{Backend: b, client: client, callers: map[[sha256.Size]byte]known[server.Caller]{}, may: map[right]known[bool]{}}
}

// lookUp is an answer that is still believed, or a new one.
func lookUp[K comparable, T any](g *Gate, m map[K]known[T], key K, ask func() (T, error)) (T, error) {
	g.mu.Lock()
	old, there := m[key]
	g.mu.Unlock()
	if there && time.Now().Before(old.until) {
		return old.is, nil
	}
	is, err := ask()
	if err != nil {
		return is, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(m) >= mostKept {
		clear(m)
	}
	m[key] = known[T]{is, time.Now().Add(believed)}
	return is, nil
}

// Authenticate asks the cluster whose token it is. Tokens must be meant for Norn, so that none
// is of use elsewhere.
func (g *Gate) Authenticate(ctx context.Context, token string) (server.Caller, error) {
	sum := sha256.Sum256([]byte(token))
	return lookUp(g, g.callers, sum, func() (server.Caller, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		r, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authentication.TokenReview{
			Spec: authentication.TokenReviewSpec{Token: token, Audiences: []string{names.Audience}},
		}, meta.CreateOptions{})
		if err != nil {
			return server.Caller{}, api.Refuse(api.Unavailable, "the cluster does not say whose token it is: %v", err)
		}
		if !r.Status.Authenticated || !slices.Contains(r.Status.Audiences, names.Audience) {
			return server.Caller{}, api.Refuse(api.NoToken, "the cluster does not know the token: make one with kubectl create token NAME --audience %s", names.Audience)
		}
		p := &person{string(sum[:]), r.Status.User}
		operator, err := g.review(ctx, p, &authorization.ResourceAttributes{Verb: "operate", Group: names.Group, Resource: "queues"})
		return server.Caller{User: r.Status.User.Username, Operator: operator, Identity: p}, err
	})
}

// review asks the cluster whether somebody may do something.
func (g *Gate) review(ctx context.Context, p *person, a *authorization.ResourceAttributes) (bool, error) {
	extra := map[string]authorization.ExtraValue{}
	for k, v := range p.info.Extra {
		extra[k] = authorization.ExtraValue(v)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{
		Spec: authorization.SubjectAccessReviewSpec{ResourceAttributes: a, User: p.info.Username, Groups: p.info.Groups, UID: p.info.UID, Extra: extra},
	}, meta.CreateOptions{})
	if err != nil {
		return false, api.Refuse(api.Unavailable, "the cluster does not say what %s may: %v", p.info.Username, err)
	}
	return r.Status.Allowed, nil
}

// allowed tells whether somebody may do something with the job of a key.
func (g *Gate) allowed(ctx context.Context, c server.Caller, verb, key string) (bool, error) {
	p, ours := c.Identity.(*person)
	if !ours || c.Operator {
		return true, nil
	}
	namespace, _, ok := strings.Cut(key, "/")
	if !ok || namespace == "" {
		return false, nil
	}
	return lookUp(g, g.may, right{p.token, verb, namespace}, func() (bool, error) {
		return g.review(ctx, p, &authorization.ResourceAttributes{Verb: verb, Group: "batch", Resource: "jobs", Namespace: namespace})
	})
}

// sees refuses whoever may not see a job: for her there is none. The caller that it returns
// may do with this job what she likes.
func (g *Gate) sees(ctx context.Context, c server.Caller, id string) (server.Caller, error) {
	may, err := g.allowed(ctx, c, "get", id)
	if err == nil && !may {
		err = api.Refuse(api.Unknown, "there is no job %q", id)
	}
	if _, ours := c.Identity.(*person); ours {
		c.Operator = true
	}
	return c, err
}

// changes refuses whoever may not change a job.
func (g *Gate) changes(ctx context.Context, c server.Caller, id string) (server.Caller, error) {
	as, err := g.sees(ctx, c, id)
	if err != nil {
		return as, err
	}
	may, err := g.allowed(ctx, c, "update", id)
	if err == nil && !may {
		namespace, _, _ := strings.Cut(id, "/")
		err = api.Refuse(api.Denied, "%s may not update Jobs in namespace %s", c.User, namespace)
	}
	return as, err
}

// Jobs implements server.Backend.
func (g *Gate) Jobs(ctx context.Context, c server.Caller, q api.Query) ([]api.Job, error) {
	as := c
	for _, id := range q.IDs {
		var err error
		if as, err = g.sees(ctx, c, id); err != nil {
			return nil, err
		}
	}
	if _, ours := c.Identity.(*person); ours {
		as.Operator = true
	}
	page := q
	if as.Operator != c.Operator { // a page is one of the jobs that she may see
		q.Page, q.After = 0, api.Cursor{}
	}
	all, err := g.Backend.Jobs(ctx, as, q)
	if err != nil {
		return nil, err
	}
	out := all[:0:0]
	for i := range all {
		may, err := g.allowed(ctx, c, "get", all[i].ID)
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, all[i])
		}
	}
	return live.PageOf(out, &page), nil
}

// Why implements server.Backend.
func (g *Gate) Why(ctx context.Context, c server.Caller, id string) (api.Why, error) {
	as, err := g.sees(ctx, c, id)
	if err != nil {
		return api.Why{}, err
	}
	return g.Backend.Why(ctx, as, id)
}

// Forecast implements server.Backend.
func (g *Gate) Forecast(ctx context.Context, c server.Caller) (api.Forecast, error) {
	as := c
	if _, ours := c.Identity.(*person); ours {
		as.Operator = true
	}
	f, err := g.Backend.Forecast(ctx, as)
	if err != nil {
		return f, err
	}
	seen := []api.Start{}
	for _, s := range f.Starts {
		may, err := g.allowed(ctx, c, "get", s.Job)
		if err != nil {
			return api.Forecast{}, err
		}
		if may {
			seen = append(seen, s)
		}
	}
	f.Starts = seen
	return f, nil
}

// Output implements server.Backend.
func (g *Gate) Output(ctx context.Context, c server.Caller, id string, run int) (server.Output, error) {
	as, err := g.sees(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return g.Backend.Output(ctx, as, id, run)
}

// Do implements server.Backend.
func (g *Gate) Do(ctx context.Context, c server.Caller, v server.Verb, id string) error {
	as, err := g.changes(ctx, c, id)
	if err != nil {
		return err
	}
	return g.Backend.Do(ctx, as, v, id)
}

// Resize implements server.Backend.
func (g *Gate) Resize(ctx context.Context, c server.Caller, id string, r api.Resize) error {
	as, err := g.changes(ctx, c, id)
	if err != nil {
		return err
	}
	return g.Backend.Resize(ctx, as, id, r)
}

// Input implements server.Backend.
func (g *Gate) Input(ctx context.Context, c server.Caller, id string, in api.Input) error {
	as, err := g.changes(ctx, c, id)
	if err != nil {
		return err
	}
	return g.Backend.Input(ctx, as, id, in)
}

// Plan implements server.Backend.
func (g *Gate) Plan(ctx context.Context, c server.Caller, q api.WhatIf) (api.Plan, error) {
	if !c.Operator {
		return api.Plan{}, api.Refuse(api.Denied, "what-ifs are for operators: %s may not operate on queues.%s", c.User, names.Group)
	}
	return g.Backend.Plan(ctx, c, q)
}

// Log implements server.Backend.
func (g *Gate) Log(ctx context.Context, c server.Caller, w io.Writer) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "the event log is for operators: %s may not operate on queues.%s", c.User, names.Group)
	}
	return g.Backend.Log(ctx, c, w)
}

// Watch implements server.Backend: events of jobs that the caller may not see are left out.
func (g *Gate) Watch(ctx context.Context, c server.Caller, since int64) (<-chan api.Event, error) {
	as := c
	if _, ours := c.Identity.(*person); ours {
		as.Operator = true
	}
	from, err := g.Backend.Watch(ctx, as, since)
	if err != nil || as.Operator == c.Operator {
		return from, err
	}
	out := make(chan api.Event, 64)
	go func() {
		defer close(out)
		for ev := range from {
			if may, err := g.allowed(ctx, c, "get", ev.Job); ev.Job != "" && (err != nil || !may) {
				continue
			}
			select {
			case out <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
