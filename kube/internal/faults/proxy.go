// Package faults puts a proxy between a client and the API server that has requests go
// wrong: refused, cut off before or after they are done, delayed; and watches that end,
// stall, or cannot go on. A function chooses what goes wrong, such as a random one with a
// seed. Its choices are noted, so that they can be repeated.
package faults

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/norn-scheduler/norn/kube/internal/pki"
)

// Proxy is a proxy that runs. Its methods may be called by several goroutines.
type Proxy struct {
	choose  Choice
	server  *http.Server
	forward *httputil.ReverseProxy
	config  *rest.Config // of its clients

	mu       sync.Mutex
	seen     map[string]int // requests by verb and path
	writes   int
	injected []Injection
	apart    bool // nothing passes
	active   map[*http.Request]context.CancelFunc
}

// Start starts a proxy on the loopback interface. It speaks to the API server as the
// configuration says, in the name of its user. Choose says what goes wrong.
func Start(config *rest.Config, choose Choice) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	authority, err := pki.New()
	if err != nil {
		return nil, err
	}
	identity, err := authority.Server()
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(identity.Cert, identity.Key)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{choose: choose, seen: map[string]int{}, active: map[*http.Request]context.CancelFunc{}}
	quiet := log.New(io.Discard, "", 0) // cut streams are what it is for
	p.forward = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // it is ours
		},
		ModifyResponse: damage,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.config = &rest.Config{
		Host: "https://" + l.Addr().String(), BearerToken: rand.Text(), TLSClientConfig: rest.TLSClientConfig{CAData: authority.PEM},
		ContentConfig: config.ContentConfig, QPS: config.QPS, Burst: config.Burst, UserAgent: config.UserAgent,
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, ErrorLog: quiet}
	go func() { _ = p.server.ServeTLS(l, "", "") }() // ends with Close
	return p, nil
}

// Config is a client configuration for the proxy. Each call makes a new one.
func (p *Proxy) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Close ends the proxy and cuts all its connections.
func (p *Proxy) Close() error { return p.server.Close() }

// Part takes the clients of the proxy off the network, or lets them back. Meanwhile each
// request is cut off, also one that is under way, which may have been done.
func (p *Proxy) Part(apart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apart = apart
	if apart {
		for _, cancel := range p.active {
			cancel()
		}
	}
}

// enter notes a request that is under way, so that Part can cut it off. It returns the
// request to go on with, and what ends it.
func (p *Proxy) enter(r *http.Request) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active[r] = cancel
	if p.apart {
		cancel()
	}
	return r, func() {
		p.mu.Lock()
		delete(p.active, r)
		p.mu.Unlock()
		cancel()
	}
}

// Injected are the faults so far, in the order in which they began.
func (p *Proxy) Injected() []Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.injected)
}

// Writes is how many writes have come to the proxy.
func (p *Proxy) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// serve answers one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+p.config.BearerToken)) == 0 {
		answer(w, http.StatusUnauthorized, meta.StatusReasonUnauthorized, 0)
		return
	}
	r, leave := p.enter(r)
	defer leave()
	f := p.draw(r)
	if !sleep(r, f.Delay) {
		panic(http.ErrAbortHandler)
	}
	switch f.Kind {
	case Conflict:
		answer(w, http.StatusConflict, meta.StatusReasonConflict, 0)
	case TooMany:
		answer(w, http.StatusTooManyRequests, meta.StatusReasonTooManyRequests, 1)
	case Internal:
		answer(w, http.StatusInternalServerError, meta.StatusReasonInternalError, 0)
	case Gone:
		answer(w, http.StatusGone, meta.StatusReasonExpired, 0)
	case Dropped:
		panic(http.ErrAbortHandler)
	default:
		p.forward.ServeHTTP(w, r.WithContext(withDamage(r.Context(), f)))
	}
}

// draw numbers a request and chooses what goes wrong with it.
func (p *Proxy) draw(r *http.Request) Fault {
	q := Request{Verb: verb(r), Path: r.URL.Path}
	p.mu.Lock()
	p.seen[q.Verb+" "+q.Path]++
	q.N = p.seen[q.Verb+" "+q.Path]
	if q.Verb != "get" && q.Verb != "watch" {
		p.writes++
		q.Writes = p.writes
	}
	p.mu.Unlock()
	f := p.choose(q)
	if f.Kind == Gone && !continues(r) {
		f.Kind = None // a watch that begins anew always can
	}
	if f != (Fault{}) {
		p.mu.Lock()
		p.injected = append(p.injected, Injection{q, f})
		p.mu.Unlock()
	}
	return f
}

// verb is what a request does, in the words of Kubernetes.
func verb(r *http.Request) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	if w := r.URL.Query().Get("watch"); w == "true" || w == "1" {
		return "watch"
	}
	return "get" // a list, too: paths tell them apart
}

// continues tells whether a watch goes on from a version that its client has.
func continues(r *http.Request) bool {
	q := r.URL.Query()
	v := q.Get("resourceVersion")
	return v != "" && v != "0" && q.Get("sendInitialEvents") != "true"
}

// isBinding tells whether a path is that of the binding of a pod.
func isBinding(path string) bool { return strings.HasSuffix(path, "/binding") }

// sleep waits, and tells whether the client is still there.
func sleep(r *http.Request, d time.Duration) bool {
	if d > 0 {
		select {
		case <-r.Context().Done():
		case <-time.After(d):
		}
	}
	return r.Context().Err() == nil
}

// answer answers as an API server does that refuses.
func answer(w http.ResponseWriter, code int32, reason meta.StatusReason, retryAfter int32) {
	status := meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure,
		Code: code, Reason: reason, Message: fmt.Sprintf("%s, by the proxy of a test", reason),
	}
	if retryAfter > 0 {
		status.Details = &meta.StatusDetails{RetryAfterSeconds: retryAfter}
		w.Header().Set("Retry-After", fmt.Sprint(retryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(status) // who does not read it has gone
}
