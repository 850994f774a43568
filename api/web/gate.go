package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// linkTime is for how long a link may be opened.
const linkTime = 10 * time.Minute

// maxLogin is the largest body of a request for a session, in bytes.
const maxLogin = 1 << 10

// Gate lets one browser through to a handler, and nobody else who can reach the port.
// Three things keep others out. A request must name the Gate's own host, so that no other
// name can be made to point here. It must not come from a page of another origin. And it
// must belong to the session: the cookie, which scripts cannot read, and the key, which
// browsers send to no other port.
type Gate struct {
	host string // 127.0.0.1:PORT
	to   http.Handler
	mux  *http.ServeMux
	now  func() time.Time

	mu      sync.Mutex
	token   secret // of the link; nil: it was used
	until   time.Time
	session *session
}

// session is a browser that was let in.
type session struct{ cookie, key secret }

// secret is the SHA-256 of what only one browser knows; nil is known to nobody.
type secret []byte

// draw makes a secret: what is told, and what is kept.
func draw() (told string, kept secret) {
	told = rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(told))
	return told, sum[:]
}

// is tells whether a text is the secret, in a time that tells nothing.
func (s secret) is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(s, sum[:]) == 1
}

// NewGate makes a Gate before a handler that answers as a Norn does. It is to be served at
// host, an address and a port such as 127.0.0.1:7078. now tells the time. The link opens
// the page once, within ten minutes.
func NewGate(host string, to http.Handler, now func() time.Time) (g *Gate, link string) {
	g = &Gate{host: host, to: to, mux: http.NewServeMux(), now: now, until: now().Add(linkTime)}
	told, kept := draw()
	g.token = kept
	for _, route := range []string{
		"GET /v1/me", "GET /v1/policies", "GET /v1/forecast", "POST /v1/plan", "GET /v1/status", "GET /v1/node", "GET /v1/nodes", "GET /v1/events",
		"GET /v1/jobs", "GET /v1/jobs/{id}", "GET /v1/jobs/{id}/why", "GET /v1/jobs/{id}/logs",
		"POST /v1/jobs/{id}/cancel", "POST /v1/jobs/{id}/hold", "POST /v1/jobs/{id}/release", "POST /v1/jobs/{id}/requeue",
		"POST /v1/node/drain",
	} {
		g.mux.Handle(route, to)
	}
	return g, "http://" + host + "/#" + told
}

// ServeHTTP answers the page to everybody, and what the page asks for to its session. What
// the page does not need, such as the submission of jobs, does not go through.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch why := g.foreign(r); {
	case why != "":
		problem(w, http.StatusForbidden, why)
	case Serves(r.URL.Path) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		g.to.ServeHTTP(w, r)
	case r.URL.Path == "/login" && r.Method == http.MethodPost:
		g.login(w, r)
	case !g.knows(r):
		problem(w, http.StatusUnauthorized, "this browser was not let in: run norn web again, and open the link that it prints")
	default:
		if _, route := g.mux.Handler(r); route == "" {
			problem(w, http.StatusNotFound, "the page has no use for that: ask the API itself")
			return
		}
		g.mux.ServeHTTP(w, r)
	}
}

// foreign says why a request is none of the page's own, or nothing.
func (g *Gate) foreign(r *http.Request) string {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.Host != g.host:
		return "the page is at http://" + g.host + " and under no other name"
	case origin != "" && origin != "http://"+g.host, origin == "" && !reads:
		return "the request comes from another page"
	case site != "" && site != "same-origin" && (r.URL.Path != "/" || !reads):
		return "the request comes from another site"
	}
	return ""
}

// cookieName has the port in it, since browsers send cookies to all ports of a host.
func (g *Gate) cookieName() string {
	return "norn-" + g.host[strings.LastIndexByte(g.host, ':')+1:]
}

// login makes a session for who has the token of the link, which is used up by that.
func (g *Gate) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token string }
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	if err != nil || json.Unmarshal(text, &in) != nil {
		problem(w, http.StatusBadRequest, "a token is expected, in JSON")
		return
	}
	cookie, key, why := g.admit(in.Token)
	if why != "" {
		problem(w, http.StatusUnauthorized, why)
		return
	}
	protect(w.Header())
	http.SetCookie(w, &http.Cookie{Name: g.cookieName(), Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"key": key})
}

// admit makes the session of a token, or says why not.
func (g *Gate) admit(token string) (cookie, key, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.token == nil:
		return "", "", "the link was used already: run norn web again"
	case !g.token.is(token):
		return "", "", "the link is not right: copy all of it, or run norn web again"
	case g.now().After(g.until):
		return "", "", "the link is too old: run norn web again"
	}
	g.token = nil
	g.session = new(session)
	cookie, g.session.cookie = draw()
	key, g.session.key = draw()
	return cookie, key, ""
}

// knows tells whether a request belongs to the session.
func (g *Gate) knows(r *http.Request) bool {
	g.mu.Lock()
	s := g.session
	g.mu.Unlock()
	cookie, err := r.Cookie(g.cookieName())
	key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return s != nil && err == nil && bearer && s.cookie.is(cookie.Value) && s.key.is(key)
}

// problem answers with an error as the API does.
func problem(w http.ResponseWriter, status int, detail string) {
	protect(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}
