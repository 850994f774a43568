package faults

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	kube "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// upstream is a server that notes what reaches it, and answers watches with line after
// line.
type upstream struct {
	mu     sync.Mutex
	got    []string
	config *rest.Config
}

func serve(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.got = append(u.got, fmt.Sprintf("%s %s HTTP/%d %s", r.Method, r.URL.Path, r.ProtoMajor, r.Header.Get("Authorization")))
		u.mu.Unlock()
		fmt.Fprintln(w, "done")
		for r.URL.Query().Get("watch") == "true" && r.Context().Err() == nil {
			fmt.Fprintln(w, "more")
			_ = http.NewResponseController(w).Flush() // fails once nobody reads
			time.Sleep(time.Millisecond)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	u.config = &rest.Config{Host: s.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	return u
}

// reached is what has reached the server since the last time.
func (u *upstream) reached() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.got
	u.got = nil
	return out
}

// between starts a proxy for a test, and a client of it.
func between(t *testing.T, config *rest.Config, choose Choice) (*Proxy, *http.Client) {
	t.Helper()
	p, err := Start(config, choose)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	c, err := rest.HTTPClientFor(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// ask makes a request and reads the whole answer.
func ask(t *testing.T, p *Proxy, c *http.Client, method, path string) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, p.Config().Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, string(text), err
}

// TestWrites: each fault of a write is what the client sees, and the server has seen the
// write where it is said to be done.
func TestWrites(t *testing.T) {
	u := serve(t)
	var fault Fault
	p, c := between(t, u.config, func(Request) Fault { return fault })
	for _, want := range []struct {
		kind   Kind
		code   int // 0: the stream is cut
		reason string
		done   bool
	}{
		{None, 200, "done", true},
		{Conflict, 409, `"reason":"Conflict"`, false},
		{TooMany, 429, `"retryAfterSeconds":1`, false},
		{Internal, 500, `"reason":"InternalError"`, false},
		{Dropped, 0, "", false},
		{Lost, 0, "", true},
	} {
		fault = Fault{Kind: want.kind, Delay: time.Millisecond}
		answer, text, err := ask(t, p, c, http.MethodPost, "/api/v1/x")
		switch {
		case want.code == 0 && err == nil:
			t.Errorf("%s: %d %s", want.kind, answer.StatusCode, text)
		case want.code != 0 && (err != nil || answer.StatusCode != want.code || !strings.Contains(text, want.reason) || answer.ProtoMajor != 2):
			t.Errorf("%s: %v %q %v", want.kind, answer, text, err)
		case want.code == 429 && answer.Header.Get("Retry-After") != "1":
			t.Error("no word of when to try again")
		}
		if got := u.reached(); want.done != slices.Equal(got, []string{"POST /api/v1/x HTTP/2 Bearer secret"}) || !want.done && len(got) > 0 {
			t.Errorf("%s: reached the server: %q", want.kind, got)
		}
	}
	if got := p.Writes(); got != 6 {
		t.Errorf("%d writes", got)
	}
	stranger := p.Config()
	stranger.BearerToken = "guess"
	c, err := rest.HTTPClientFor(stranger)
	if err != nil {
		t.Fatal(err)
	}
	if answer, _, err := ask(t, p, c, http.MethodPost, "/api/v1/x"); err != nil || answer.StatusCode != 401 || len(u.reached()) > 0 {
		t.Errorf("a stranger: %v %v", answer, err)
	}
}

// TestWatches: a watch is cut, stalls, or cannot go on.
func TestWatches(t *testing.T) {
	u := serve(t)
	fault := Fault{Kind: Cut, After: 50 * time.Millisecond}
	p, c := between(t, u.config, func(Request) Fault { return fault })
	const path = "/api/v1/pods?watch=true&resourceVersion=7"
	for _, kind := range []Kind{Cut, Stall} {
		fault = Fault{Kind: kind, After: 50 * time.Millisecond, Hold: 50 * time.Millisecond}
		answer, text, err := ask(t, p, c, http.MethodGet, path)
		if err == nil || answer == nil || !strings.HasPrefix(text, "done\nmore\n") {
			t.Errorf("%s: %q %v", kind, text, err)
		}
	}
	fault = Fault{Kind: Gone}
	if answer, text, err := ask(t, p, c, http.MethodGet, path); err != nil || answer.StatusCode != 410 || !strings.Contains(text, `"reason":"Expired"`) {
		t.Errorf("%v %q %v", answer, text, err)
	}
	if answer, _, err := ask(t, p, c, http.MethodGet, "/api/v1/pods?resourceVersion=0"); err != nil || answer.StatusCode != 200 {
		t.Errorf("a list: %v %v", answer, err)
	}
	if got := len(p.Injected()); got != 3 {
		t.Errorf("%d faults are noted: %v", got, p.Injected())
	}
}

// TestPart: a client off the network gets nothing through, and what was under way is cut.
func TestPart(t *testing.T) {
	u := serve(t)
	p, c := between(t, u.config, Well)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Config().Host+"/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for range 3 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
	}
	u.reached()
	p.Part(true)
	for lines.Scan() { // what was sent before
	}
	if lines.Err() == nil {
		t.Error("the watch ended as if it were over")
	}
	if answer, _, err := ask(t, p, c, http.MethodPost, "/api/v1/x"); err == nil || len(u.reached()) > 0 {
		t.Errorf("%v passed", answer)
	}
	p.Part(false)
	if _, _, err := ask(t, p, c, http.MethodPost, "/api/v1/x"); err != nil || len(u.reached()) != 1 {
		t.Error(err)
	}
}

// TestRandom: the same requests meet the same faults, in whatever order they come, and a
// schedule can be played again.
func TestRandom(t *testing.T) {
	rates := Rates{Conflict: 0.1, Lost: 0.1, TooMany: 0.1, Internal: 0.1, Dropped: 0.1, Cut: 0.2, Stall: 0.2, Gone: 0.2, Delay: 0.3}
	var requests []Request
	for i, verb := range []string{"get", "watch", "create", "update", "patch", "delete"} {
		for n := 1; n <= 200; n++ {
			r := Request{Verb: verb, Path: "/api/v1/pods/x/binding", N: n}
			if i > 1 {
				r.Writes = n
			}
			requests = append(requests, r)
		}
	}
	run := func(c Choice, order []Request) map[Request]Fault {
		out := map[Request]Fault{}
		for _, r := range order {
			if f := c(r); f != (Fault{}) {
				out[r] = f
			}
		}
		return out
	}
	back := slices.Clone(requests)
	slices.Reverse(back)
	one, same, other := run(Random(1, rates), requests), run(Random(1, rates), back), run(Random(2, rates), requests)
	if !maps.Equal(one, same) || maps.Equal(one, other) {
		t.Errorf("%d, %d and %d faults", len(one), len(same), len(other))
	}
	var schedule []Injection
	kinds := map[string]map[Kind]bool{}
	for r, f := range one {
		schedule = append(schedule, Injection{r, f})
		if kinds[r.Verb] == nil {
			kinds[r.Verb] = map[Kind]bool{}
		}
		kinds[r.Verb][f.Kind] = true
	}
	if got := run(Replay(schedule), back); !maps.Equal(got, one) {
		t.Errorf("%d of %d faults again", len(got), len(one))
	}
	all := []Kind{None, TooMany, Internal, Dropped} // None: a delay alone
	write, watch := append(all[:4:4], Conflict, Lost), append(all[:4:4], Cut, Stall, Gone)
	for verb, want := range map[string][]Kind{"get": all, "watch": watch, "create": write, "update": write, "patch": write, "delete": write} {
		got := slices.Sorted(maps.Keys(kinds[verb]))
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", verb, got, want)
		}
	}
	if r := (Request{Verb: "create", Path: "/api/v1/pods", Writes: 1}); len(run(Random(1, Rates{Conflict: 1}), []Request{r})) > 0 {
		t.Error("what is new conflicts")
	}
	text := Injection{Request{Verb: "watch", Path: "/p", N: 3}, Fault{Kind: Stall, After: time.Second, Hold: 2 * time.Second}}.String()
	if text != "watch /p (3): stall after=1s hold=2s" {
		t.Error(text)
	}
}

// TestCluster: behind many faults of a real API server, who tries again writes all that
// she wants, and who watches ends with the truth.
func TestCluster(t *testing.T) {
	env := testenv.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const rate = 0.15
	p, _ := between(t, env.Config(), Random(7, Rates{
		Conflict: rate, Lost: rate, TooMany: 0.02, Internal: rate, Dropped: rate,
		Cut: 0.4, Stall: 0.1, Gone: 0.1, Delay: 0.3, Longest: 50 * time.Millisecond, Steady: 200 * time.Millisecond,
	}))
	client, err := kubernetes.NewForConfig(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default", fields.Everything()),
		ObjectType:    &core.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	go informer.RunWithContext(ctx)
	maps := client.CoreV1().ConfigMaps("default")
	const n = 60
	lost := 0
	for i := range n {
		m := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint("m", i)}, Data: map[string]string{}}
		for done := false; !done; {
			_, err := maps.Create(ctx, m, meta.CreateOptions{})
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			if kube.IsAlreadyExists(err) { // by a write whose answer was lost
				lost++
			}
			done = err == nil || kube.IsAlreadyExists(err)
		}
		for done := false; !done && i%2 == 0; {
			err := maps.Delete(ctx, m.Name, meta.DeleteOptions{})
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			done = err == nil || kube.IsNotFound(err)
		}
	}
	direct, err := kubernetes.NewForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	truth, err := direct.CoreV1().ConfigMaps("default").List(ctx, meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range truth.Items {
		want = append(want, "default/"+truth.Items[i].Name)
	}
	slices.Sort(want)
	if len(want) < n/2 || lost == 0 {
		t.Errorf("%d objects, %d answers were lost", len(want), lost)
	}
	for {
		got := store.ListKeys()
		if slices.Sort(got); slices.Equal(got, want) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("who watches has %d objects of %d", len(got), len(want))
		}
		time.Sleep(10 * time.Millisecond)
	}
	kinds := map[Kind]int{}
	for _, i := range p.Injected() {
		kinds[i.Fault.Kind]++
	}
	for _, kind := range []Kind{Lost, Internal, Dropped, Conflict} {
		if kinds[kind] == 0 {
			t.Errorf("no request met %s: %v", kind, kinds)
		}
	}
	t.Logf("faults: %v", kinds)
}
