package kube_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/names"
)

// token makes a service account that has some rules in a namespace, and a token for it.
func (r *rig) token(name, namespace string, audience string, rules ...rbac.PolicyRule) string {
	r.t.Helper()
	accounts := r.client.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(background, &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
	subjects := []rbac.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}}
	m := meta.ObjectMeta{Name: name, Namespace: namespace}
	switch {
	case err != nil:
	case namespace == "":
		_, err = r.client.RbacV1().ClusterRoles().Create(background, &rbac.ClusterRole{ObjectMeta: m, Rules: rules}, meta.CreateOptions{})
		if err == nil {
			b := &rbac.ClusterRoleBinding{ObjectMeta: m, Subjects: subjects, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: name}}
			_, err = r.client.RbacV1().ClusterRoleBindings().Create(background, b, meta.CreateOptions{})
		}
	default:
		_, err = r.client.RbacV1().Roles(namespace).Create(background, &rbac.Role{ObjectMeta: m, Rules: rules}, meta.CreateOptions{})
		if err == nil {
			b := &rbac.RoleBinding{ObjectMeta: m, Subjects: subjects, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: name}}
			_, err = r.client.RbacV1().RoleBindings(namespace).Create(background, b, meta.CreateOptions{})
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	t, err := accounts.CreateToken(background, name, &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{Audiences: []string{audience}}}, meta.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return t.Status.Token
}

// serve has a Norn lead that serves its API at an address of the network, with the rights of
// the manifests, and returns a client for a token.
func (r *rig) serve() func(token string) *client.Client {
	r.t.Helper()
	r.down()
	r.install()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	r.opt.Client = r.as(account, "system:serviceaccounts", "system:authenticated")
	ctx, stop := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() {
		e := &kube.Election{Client: r.opt.Client, Namespace: "norn-system", Identity: "me"}
		ended <- kube.Serve(ctx, e, r.opt, server.Config{}, kube.Doors{API: addr})
	}()
	r.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			r.t.Error(err)
		}
	})
	ca := filepath.Join(r.t.TempDir(), "norn.crt")
	r.until("the certificate is told", func() bool {
		lease, err := r.client.CoordinationV1().Leases("norn-system").Get(background, names.Lease, meta.GetOptions{})
		return err == nil && lease.Annotations[names.Certificate] != "" && os.WriteFile(ca, []byte(lease.Annotations[names.Certificate]), 0o600) == nil
	})
	return func(token string) *client.Client {
		c, err := client.New("https://"+addr, token, ca)
		if err != nil {
			r.t.Fatal(err)
		}
		return c
	}
}

// TestGate: over the network the cluster says who calls, and what she may.
func TestGate(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	connect := r.serve()
	if _, err := r.client.CoreV1().Namespaces().Create(background, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "other"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	jobs := func(verbs ...string) rbac.PolicyRule {
		return rbac.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: verbs}
	}
	operate := rbac.PolicyRule{APIGroups: []string{names.Group}, Resources: []string{"queues"}, Verbs: []string{"operate"}}
	reader := connect(r.token("reader", "default", names.Audience, jobs("get")))
	writer := connect(r.token("writer", "default", names.Audience, jobs("get", "update")))
	stranger := connect(r.token("stranger", "other", names.Audience, jobs("get", "update")))
	operator := connect(r.token("operator", "", names.Audience, operate))
	r.job("runs", 1, 4, "10000s", nil)
	seen := func(c *client.Client) int {
		list, err := c.Jobs(background, api.Query{})
		if err != nil {
			t.Log(err)
			return -1
		}
		return len(list)
	}
	r.until("it is listed", func() bool { return seen(operator) == 1 })
	if a, b, c := seen(reader), seen(writer), seen(stranger); a != 1 || b != 1 || c != 0 {
		t.Errorf("the reader sees %d jobs, the writer %d, somebody of another namespace %d", a, b, c)
	}
	for name, bad := range map[string]*client.Client{"no token": connect("x"), "a token for the API server": connect(r.token("lost", "default", "https://kubernetes.default.svc", jobs("*")))} {
		if _, err := bad.Jobs(background, api.Query{}); kindOf(err) != api.NoToken {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		what string
		err  error
		want api.ErrorKind
	}{
		{"the reader holds", reader.Do(background, "hold", "default/runs"), api.Denied},
		{"a stranger cancels", stranger.Do(background, "cancel", "default/runs"), api.Unknown},
		{"the reader uses another policy", reader.SetPolicy(background, "srtf"), api.Denied},
		{"the writer drains", writer.Drain(background, api.Drain{Devices: []string{smallNodes[0].Name}}), api.Denied},
		{"the writer reads the log", writer.EventLog(background, discard{}), api.Denied},
	} {
		if kindOf(c.err) != c.want {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	r.job("waits", 1, 8, "10s", nil)
	r.until("a second one is listed", func() bool { return seen(reader) == 2 })
	ask := func(c *client.Client, method, path, body string) (int, string) {
		q := httptest.NewRequest(method, path, strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		c.Proxy().ServeHTTP(w, q)
		return w.Code, w.Body.String()
	}
	if list, err := reader.Jobs(background, api.Query{Page: 1}); err != nil || len(list) != 1 {
		t.Errorf("the reader asks for a page: %d jobs, %v", len(list), err)
	} else if list, err := reader.Jobs(background, api.Query{Page: 5, After: api.Behind(&list[0])}); err != nil || len(list) != 1 {
		t.Errorf("the reader asks for the next page: %d jobs, %v", len(list), err)
	}
	if list, err := stranger.Jobs(background, api.Query{Page: 1}); err != nil || len(list) != 0 {
		t.Errorf("a stranger asks for a page: %d jobs, %v", len(list), err)
	}
	if code, body := ask(stranger, "GET", "/v1/forecast", ""); code != 200 || !strings.Contains(body, `"starts":[]`) {
		t.Errorf("a stranger asks who starts: %d %s", code, body)
	}
	if code, body := ask(writer, "POST", "/v1/plan", `{"policies":["srtf"]}`); code != 403 {
		t.Errorf("the writer asks what if: %d %s", code, body)
	}
	if _, err := stranger.Why(background, "default/runs"); kindOf(err) != api.Unknown {
		t.Errorf("a stranger asks why: %v", err)
	}
	if w, err := reader.Why(background, "default/runs"); err != nil || w.Job.ID != "default/runs" {
		t.Errorf("the reader asks why: %+v, %v", w, err)
	}
	if err := operator.SetPolicy(background, "srtf"); err != nil {
		t.Errorf("the operator uses another policy: %v", err)
	}
	if err := operator.EventLog(background, discard{}); err != nil {
		t.Errorf("the operator reads the log: %v", err)
	}
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	err := stranger.Watch(ctx, 1, func(e api.Event) error {
		if e.Job != "" {
			t.Errorf("a stranger hears of %+v", e)
		}
		return nil
	})
	if ctx.Err() == nil {
		t.Errorf("watching ended: %v", err)
	}
	if err := writer.Do(background, "cancel", "default/runs"); err != nil {
		t.Errorf("the writer cancels: %v", err)
	}
	r.until("it is cancelled", func() bool { return seen(operator) == 1 })
}

// discard takes everything.
type discard struct{}

// Write implements io.Writer.
func (discard) Write(b []byte) (int, error) { return len(b), nil }

// kindOf is the kind of a refusal.
func kindOf(err error) api.ErrorKind {
	var r *api.Error
	errors.As(err, &r)
	if r == nil {
		return 0
	}
	return r.Kind
}
