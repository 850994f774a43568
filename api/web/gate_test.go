package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/web"
)

const host = "127.0.0.1:7078"

// asked is a request as it comes to a Gate, with the headers of a page of its own.
func asked(method, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
	r.Header.Set("Origin", "http://"+host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

// behind is a Gate before the page and a handler that answers "secret" to all else.
type behind struct {
	*web.Gate
	t       *testing.T
	token   string
	clock   *clock
	reached []string // what came through
}

func newBehind(t *testing.T) *behind {
	b := &behind{t: t, clock: &clock{now: began}}
	page := web.Page()
	g, link := web.NewGate(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if web.Serves(r.URL.Path) {
			page.ServeHTTP(w, r)
			return
		}
		b.reached = append(b.reached, r.Method+" "+r.URL.Path)
		io.WriteString(w, "secret")
	}), b.clock.time)
	u, err := url.Parse(link)
	if err != nil || u.Host != host || len(u.Fragment) < 40 {
		t.Fatalf("the link is %s, %v", link, err)
	}
	b.Gate, b.token = g, u.Fragment
	return b
}

// answers checks the status of an answer, and that nothing came through unless it is 200.
func (b *behind) answers(want int, r *http.Request) *httptest.ResponseRecorder {
	b.t.Helper()
	b.reached = nil
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if w.Code != want {
		b.t.Errorf("%s %s of %s, %v: %d, want %d: %s", r.Method, r.URL.Path, r.Host, r.Header, w.Code, want, w.Body)
	}
	if want != http.StatusOK && (len(b.reached) > 0 || strings.Contains(w.Body.String(), "secret")) {
		b.t.Errorf("%s %s came through: %v", r.Method, r.URL.Path, b.reached)
	}
	return w
}

func login(token string, headers ...string) *http.Request {
	text, _ := json.Marshal(map[string]string{"token": token}) // of a string: cannot fail
	return asked("POST", "/login", string(text), headers...)
}

// enter exchanges the token for a session, and returns its headers.
func (b *behind) enter() []string {
	b.t.Helper()
	w := b.answers(200, login(b.token))
	var out struct{ Key string }
	cookies := w.Result().Cookies()
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Key == "" || len(cookies) != 1 {
		b.t.Fatalf("%s, %v", w.Body, cookies)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Name != "norn-7078" {
		b.t.Errorf("the cookie is %s", c)
	}
	return []string{"Cookie", cookies[0].Name + "=" + cookies[0].Value, "Authorization", "Bearer " + out.Key}
}

// The page itself is for everybody, under a strict policy; what it asks for is for the
// session alone, and needs the cookie and the key.
func TestGate(t *testing.T) {
	b := newBehind(t)
	for _, path := range []string{"/", "/web/page.css", "/web/palette.css", "/web/main.js", "/web/icon.svg"} {
		w := b.answers(200, asked("GET", path, "", "Origin", ""))
		if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'; script-src 'self';") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: the policy is %q", path, p)
		}
		if w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for _, path := range []string{"/web/", "/web/nothing.js", "/web/../gate.go", "/web/assets/main.js", "/web/%2e%2e/web.go"} {
		b.answers(404, asked("GET", path, "", "Origin", ""))
	}
	b.answers(401, asked("GET", "/v1/jobs", ""))
	session := b.enter()
	if w := b.answers(200, asked("GET", "/v1/jobs", "", session...)); w.Body.String() != "secret" {
		t.Errorf("the session reads %q", w.Body)
	}
	b.answers(200, asked("POST", "/v1/jobs/team-a%2Fbert/cancel", "", session...))
	b.answers(200, asked("GET", "/v1/events?since=3", "", append(session, "Origin", "")...))
	b.answers(401, asked("GET", "/v1/jobs", "", session[:2]...))
	b.answers(401, asked("GET", "/v1/jobs", "", session[2:]...))
	b.answers(401, asked("GET", "/v1/jobs", "", append(session, "Authorization", "Bearer "+b.token)...))
	b.answers(401, asked("GET", "/v1/jobs", "", append(session, "Cookie", strings.Replace(session[1], "7078", "7079", 1))...))
	b.answers(401, asked("GET", "/v1/jobs", "", append(session, "Cookie", session[1]+"x")...))
}

// A link lets in one browser, once, and not for ever.
func TestLinkOpensOnce(t *testing.T) {
	b := newBehind(t)
	for _, token := range []string{"", "A", b.token[1:], b.token + "A", strings.ToLower(b.token), strings.Repeat("A", 5000)} {
		if w := httptest.NewRecorder(); true {
			if b.ServeHTTP(w, login(token)); w.Code == 200 || len(w.Result().Cookies()) > 0 {
				t.Errorf("%.60q lets in: %d", token, w.Code)
			}
		}
	}
	b.answers(400, asked("POST", "/login", "token="+b.token))
	b.answers(401, asked("GET", "/login", ""))
	session := b.enter()
	if w := b.answers(401, login(b.token)); !strings.Contains(w.Body.String(), "used already") {
		t.Errorf("the second time it says %s", w.Body)
	}
	b.clock.forward(100 * time.Hour)
	b.answers(200, asked("GET", "/v1/jobs", "", session...))

	late := newBehind(t)
	late.clock.forward(11 * time.Minute)
	if w := late.answers(401, login(late.token)); !strings.Contains(w.Body.String(), "too old") {
		t.Errorf("after eleven minutes it says %s", w.Body)
	}

	crowd := newBehind(t)
	var in atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			w := httptest.NewRecorder()
			if crowd.ServeHTTP(w, login(crowd.token)); w.Code == 200 {
				in.Add(1)
			}
		})
	}
	if all.Wait(); in.Load() != 1 {
		t.Errorf("%d browsers were let in at once", in.Load())
	}
}

// No other name leads to the page (DNS rebinding), not even with the session.
func TestOtherHost(t *testing.T) {
	b := newBehind(t)
	for _, name := range []string{"evil.example", "evil.example:7078", "127.0.0.1", "127.0.0.1:7079", "localhost:7078", "127.0.0.1:7078.evil.example", "127.1:7078", "[::1]:7078", ""} {
		r := login(b.token, "Origin", "http://"+name)
		r.Host = name
		b.answers(403, r)
		r = asked("GET", "/", "", "Origin", "")
		r.Host = name
		b.answers(403, r)
	}
	session := b.enter()
	b.answers(403, asked("GET", "/v1/jobs", "", append(session, "Host", "evil.example:7078")...))
}

// No other page sends requests in the user's name (CSRF), be it on another port of this
// machine, to which browsers send the cookie as well.
func TestOtherOrigin(t *testing.T) {
	b := newBehind(t)
	for _, origin := range []string{"", "null", "https://" + host, "http://127.0.0.1:7079", "http://localhost:7078", "http://evil.example", "http://" + host + ".evil.example"} {
		b.answers(403, login(b.token, "Origin", origin))
	}
	b.answers(403, login(b.token, "Sec-Fetch-Site", "same-site"))
	session := b.enter()
	for _, origin := range []string{"", "null", "http://127.0.0.1:7079", "http://evil.example"} {
		b.answers(403, asked("POST", "/v1/jobs/17/cancel", "", append(session, "Origin", origin)...))
	}
	for _, site := range []string{"same-site", "cross-site", "none"} {
		b.answers(403, asked("GET", "/v1/jobs", "", append(session, "Origin", "", "Sec-Fetch-Site", site)...))
		b.answers(403, asked("POST", "/v1/jobs/17/cancel", "", append(session, "Sec-Fetch-Site", site)...))
		b.answers(403, asked("GET", "/web/main.js", "", "Origin", "", "Sec-Fetch-Site", site))
		b.answers(200, asked("GET", "/", "", "Origin", "", "Sec-Fetch-Site", site)) // a link was followed
	}
}

// Whoever steals the session cannot start programs with it: what the page does not need
// does not go through.
func TestGateLetsThroughWhatThePageNeeds(t *testing.T) {
	b := newBehind(t)
	session := b.enter()
	for _, route := range []string{
		"POST /v1/jobs", "POST /v1/jobs/17/input", "POST /v1/jobs/17/resize", "PUT /v1/policy", "GET /v1/plan", "POST /v1/policies", "GET /v1/log", "GET /v1/fsck", "POST /v1/fsck",
		"GET /metrics", "GET /openapi.json", "GET /v1/task/allocation", "POST /v1/task/report", "GET /v1/jobs/17/../../log", "GET //v1/log", "DELETE /v1/jobs/17", "POST /", "GET /nothing",
	} {
		method, path, _ := strings.Cut(route, " ")
		w := httptest.NewRecorder()
		b.reached = nil
		if b.ServeHTTP(w, asked(method, path, "{}", session...)); len(b.reached) > 0 || w.Code == 200 {
			t.Errorf("%s: %d, came through: %v", route, w.Code, b.reached)
		}
	}
}

// Requests come to Norn as those of the user of norn web, with nothing of the browser's.
func TestProxy(t *testing.T) {
	var seen http.Header
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		http.SetCookie(w, &http.Cookie{Name: "theirs", Value: "1"})
		io.WriteString(w, r.URL.RequestURI())
	}))
	defer back.Close()
	proxy := clientOf(t, back.URL, "the users token").Proxy()
	r := asked("GET", "/v1/jobs/team-a%2Fbert/logs?tail=3", "", "Cookie", "norn-7078=x", "Authorization", "Bearer key", "Last-Event-ID", "7", "X-Forwarded-For", "1.2.3.4")
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, r)
	if w.Body.String() != "/v1/jobs/team-a%2Fbert/logs?tail=3" || len(w.Result().Cookies()) > 0 {
		t.Errorf("%d %s, %v", w.Code, w.Body, w.Header())
	}
	if seen.Get("Authorization") != "Bearer the users token" || seen.Get("Last-Event-ID") != "7" {
		t.Errorf("it came as %v", seen)
	}
	for _, name := range []string{"Cookie", "Origin", "Sec-Fetch-Site", "X-Forwarded-For"} {
		if seen.Values(name) != nil {
			t.Errorf("%s came through: %v", name, seen)
		}
	}
	back.Close()
	w = httptest.NewRecorder()
	proxy.ServeHTTP(w, asked("GET", "/v1/jobs", ""))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no norn answers") {
		t.Errorf("without a norn: %d %s", w.Code, w.Body)
	}
}

// What Norn says of who asks is what the page shows and offers.
func TestMe(t *testing.T) {
	s := serve(t)
	for token, want := range map[string]api.Me{annasToken: {User: "anna"}, operatorsToken: {User: "olga", Operator: true}} {
		r, err := http.NewRequest("GET", s.tcp+"/v1/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		var have api.Me
		if err := json.NewDecoder(a.Body).Decode(&have); err != nil || have != want {
			t.Errorf("%+v, %v; want %+v", have, err, want)
		}
	}
}
