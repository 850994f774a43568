package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

// hashToken is how a token is written in a Config.
func hashToken(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}

// certificate writes a certificate for 127.0.0.1 that is its own authority.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "box"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	ok(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	ok(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ok(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	ok(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

var tokens = []Token{
	{Name: "laptop", SHA256: hashToken("anna's token"), User: "anna"},
	{Name: "robot", SHA256: hashToken("the robot's token"), User: "robot", Operator: true},
}

// Over TCP a token says who calls, and TLS keeps it secret.
func TestTCP(t *testing.T) {
	cert, key := certificate(t)
	r := start(t, func(c *Config) { c.TCP = &TCP{Addr: "127.0.0.1:0", Cert: cert, Key: key, Tokens: tokens} })
	url, ctx := "https://"+r.Addr().String(), context.Background()
	as := func(token string) *client.Client {
		c, err := client.New(url, token, cert)
		ok(t, err)
		return c
	}
	for _, c := range []struct {
		token string
		want  Caller
	}{
		{"anna's token", Caller{User: "anna", UID: noUID}},
		{"the robot's token", Caller{User: "robot", UID: noUID, Operator: true}},
	} {
		_, err := as(c.token).Submit(ctx, api.JobSpec{Command: []string{"true"}})
		ok(t, err)
		if have := r.fake.lastCaller(); !reflect.DeepEqual(have, c.want) {
			t.Errorf("%q is %+v", c.token, have)
		}
	}
	for _, token := range []string{"", "anna's toke", "anna's token2", "ANNA'S TOKEN", hashToken("anna's token"), "token-1", strings.Repeat("x", 10_000)} {
		_, err := as(token).Jobs(ctx, api.Query{})
		refused(t, err, api.NoToken, "token")
	}
	refused(t, as("anna's token").SetPolicy(ctx, "fifo"), api.Denied, "anna is none")
	ok(t, as("the robot's token").SetPolicy(ctx, "drf"))
	stranger, err := client.New(url, "anna's token", "")
	ok(t, err)
	if _, err := stranger.Status(ctx); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody is believed: %v", err)
	}
	r.fake.change(func() { r.fake.jobs[0].output = []byte("epoch 1\n") })
	body, err := as("anna's token").Logs(ctx, "1", client.LogOptions{Tail: -1, Follow: true}) // over HTTP/2
	ok(t, err)
	defer body.Close()
	told := make([]byte, len("epoch 1\n"))
	if _, err := io.ReadFull(body, told); err != nil || string(told) != "epoch 1\n" {
		t.Errorf("have %q, %v", told, err)
	}
	enough := errors.New("enough")
	if err := as("anna's token").Watch(ctx, 0, func(api.Event) error { return enough }); err != enough {
		t.Error(err)
	}
	if code, _ := ask(t, &http.Client{Timeout: patience}, "GET", "http://"+r.Addr().String()+"/healthz", "", ""); code == 200 {
		t.Error("TLS can be left out")
	}
	ok(t, r.stop())
	if _, err := io.ReadAll(body); err == nil {
		t.Error("output that was broken off looks whole")
	}
}

// Without a token there are signs of life alone.
func TestTCPWithoutToken(t *testing.T) {
	r := start(t, func(c *Config) { c.TCP = &TCP{Addr: "127.0.0.1:0", Tokens: tokens} })
	r.fake.add("anna", 1)
	url, plain := "http://"+r.Addr().String(), &http.Client{Timeout: patience}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/": 200, "/web/main.js": 200, "/web/nothing": 404, "/web": 401, "/v1/me": 401, "/metrics": 401, "/openapi.json": 401, "/v1/status": 401, "/v1/jobs": 401, "/v1/jobs/1": 401, "/v1/events": 401,
		"/v1/log": 401, "/nothing": 401, "/v1/task/allocation": 401, "/healthz/": 401, "/v1/task/../jobs": 401, "/v1/task/": 401,
	} {
		if code, body := ask(t, plain, "GET", url+path, "", ""); code != want || code == 401 && !strings.Contains(body, "token") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for path, want := range map[string]int{"/metrics": 200, "/openapi.json": 200, "/v1/task/allocation": 401, "/v1/task/../jobs": 401} {
		if code, _ := ask(t, plain, "GET", url+path, "", "anna's token"); code != want {
			t.Errorf("%s with a token: %d", path, code)
		}
	}
	if code, _ := ask(t, plain, "GET", url+"/v1/task/allocation", "", "token-1"); code != 200 {
		t.Errorf("a task is told %d", code)
	}
	if code, _ := ask(t, plain, "GET", url+"/v1/jobs", "", "token-1"); code != 401 {
		t.Errorf("the token of a run is good for more: %d", code)
	}
	for _, header := range []string{"Basic YTpi", "Bearer", "Bearer ", "anna's token", "Token anna's token"} {
		req, _ := http.NewRequest("GET", url+"/v1/jobs", nil)
		req.Header.Set("Authorization", header)
		resp, err := plain.Do(req)
		ok(t, err)
		resp.Body.Close()
		if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: %s", header, resp.Status)
		}
	}
}

// A configuration that would let in everybody, or tell tokens to everybody, is
// refused.
func TestConfigRefused(t *testing.T) {
	cert, key := certificate(t)
	good := Token{Name: "a", SHA256: hashToken("x"), User: "anna"}
	for what, c := range map[string]struct {
		tcp  TCP
		want string
	}{
		"no token":        {TCP{Addr: "127.0.0.1:0"}, "without tokens"},
		"no TLS":          {TCP{Addr: "0.0.0.0:0", Tokens: []Token{good}}, "without TLS"},
		"no TLS, any":     {TCP{Addr: ":0", Tokens: []Token{good}}, "without TLS"},
		"no TLS, IPv6":    {TCP{Addr: "[::]:0", Tokens: []Token{good}}, "without TLS"},
		"no key":          {TCP{Addr: "127.0.0.1:0", Cert: cert, Tokens: []Token{good}}, "certificate"},
		"no such file":    {TCP{Addr: "127.0.0.1:0", Cert: cert + "x", Key: key, Tokens: []Token{good}}, "certificate"},
		"no hash":         {TCP{Addr: "127.0.0.1:0", Tokens: []Token{{Name: "a", User: "anna"}}}, "SHA-256"},
		"the token":       {TCP{Addr: "127.0.0.1:0", Tokens: []Token{{Name: "a", User: "anna", SHA256: "hunter2"}}}, "SHA-256"},
		"nobody's":        {TCP{Addr: "127.0.0.1:0", Tokens: []Token{{Name: "a", SHA256: good.SHA256}}}, "needs a name and a user"},
		"twice":           {TCP{Addr: "127.0.0.1:0", Tokens: []Token{good, {Name: "b", SHA256: good.SHA256, User: "bob"}}}, "twice"},
		"no address":      {TCP{Addr: "box", Tokens: []Token{good}}, "not an address"},
		"somebody else's": {TCP{Addr: "192.0.2.1:7077", Cert: cert, Key: key, Tokens: []Token{good}}, "192.0.2.1"},
	} {
		socket := socketPath(t)
		_, err := New(Config{Backend: newFake(), Socket: socket, TCP: &c.tcp})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: have %v", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the token", what)
		}
		if _, err := os.Lstat(socket); err == nil {
			t.Errorf("%s: the socket stays behind", what)
		}
	}
	for _, c := range []Config{{}, {Backend: newFake()}, {Backend: newFake(), Socket: socketPath(t), MaxBody: -1}, {Backend: newFake(), Socket: socketPath(t), MaxConns: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// The client sends no token where others could read it.
func TestClientRefuses(t *testing.T) {
	for addr, want := range map[string]string{
		"http://box:7077": "in the clear", "http://192.0.2.1": "in the clear", "ftp://box": "not an address", "https://": "not an address",
		"https://user:pass@box": "not an address", "": "path of its socket", "https://box?x=y": "not an address",
	} {
		_, err := client.New(addr, "secret", "")
		refused(t, err, api.Invalid, want)
	}
	_, err := client.New("https://box", "secret", filepath.Join(t.TempDir(), "none.pem"))
	refused(t, err, api.Invalid, "certificates cannot be read")
	none := filepath.Join(t.TempDir(), "empty.pem")
	ok(t, os.WriteFile(none, []byte("nothing"), 0o644))
	_, err = client.New("https://box", "secret", none)
	refused(t, err, api.Invalid, "no certificate")
	for _, addr := range []string{"http://127.0.0.1:1", "http://localhost:1/", "http://[::1]:1", "https://box:7077/norn/"} {
		if _, err := client.New(addr, "secret", ""); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A user who is not an operator sees and changes only her own jobs.
func TestOthersJobs(t *testing.T) {
	r, ctx := start(t, func(c *Config) { c.Operators = nil }), context.Background()
	r.fake.add("somebody-else", 2)
	r.fake.add(me(t), 1)
	jobs, err := r.client.Jobs(ctx, api.Query{All: true, Users: []string{"somebody-else", me(t)}})
	ok(t, err)
	if len(jobs) != 1 || jobs[0].ID != "3" {
		t.Errorf("she sees %+v", jobs)
	}
	_, err = r.client.Job(ctx, "1")
	refused(t, err, api.Unknown, "there is no job 1")
	_, err = r.client.Why(ctx, "1")
	refused(t, err, api.Unknown, "there is no job 1")
	_, err = r.client.Logs(ctx, "1", followAll)
	refused(t, err, api.Unknown, "there is no job 1")
	for _, verb := range []string{"cancel", "hold", "release", "requeue"} {
		refused(t, r.client.Do(ctx, verb, "1"), api.Unknown, "there is no job 1")
	}
	refused(t, r.client.Resize(ctx, "1", api.Resize{GPUs: 1}), api.Unknown, "there is no job 1")
	_, err = r.client.Submit(ctx, api.JobSpec{User: "somebody-else", Command: []string{"true"}})
	refused(t, err, api.Denied, "may not submit as")
	refused(t, r.client.Drain(ctx, api.Drain{}), api.Denied, "is for operators")
	_, err = r.client.Reclaim(ctx, api.Reclaim{})
	refused(t, err, api.Denied, "is for operators")
	refused(t, r.client.SetPolicy(ctx, "drf"), api.Denied, "is for operators")
	refused(t, r.client.EventLog(ctx, io.Discard), api.Denied, "is for operators")
	if r.fake.policy != "fifo" || r.fake.jobs[0].State != api.Waiting {
		t.Error("something was done all the same")
	}
	stop := context.Canceled
	if err := r.client.Watch(ctx, 0, func(e api.Event) error {
		if e.Job != "3" {
			t.Errorf("she is told of %+v", e)
		}
		return stop
	}); err != stop {
		t.Error(err)
	}
}

const (
	childSocket = "NORN_TEST_SOCKET"
	nobody      = 65534
)

// A process of another user is that user, whatever it says of itself.
func TestAnotherUser(t *testing.T) {
	if socket := os.Getenv(childSocket); socket != "" {
		c, err := client.New(socket, "the robot's token", "")
		ok(t, err)
		_, err = c.Submit(context.Background(), api.JobSpec{Command: []string{"true"}})
		ok(t, err)
		refused(t, c.SetPolicy(context.Background(), "drf"), api.Denied, "is for operators")
		_, err = c.Job(context.Background(), "1")
		refused(t, err, api.Unknown, "there is no job 1")
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	r := start(t, func(c *Config) { c.Operators = func(uid uint32, _ string) bool { return uid == 0 } })
	r.fake.add(me(t), 1)
	program := filepath.Join(filepath.Dir(r.Socket), "test") // where the other user can read it
	text, err := os.ReadFile("/proc/self/exe")
	ok(t, err)
	ok(t, os.WriteFile(program, text, 0o755))
	child := exec.Command(program, "-test.run=^TestAnotherUser$")
	child.Dir = "/"
	child.Env = []string{childSocket + "=" + r.Socket}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if have := r.fake.callers[0]; have.UID != nobody || have.User != userName(nobody) || !have.Local || have.Operator {
		t.Errorf("it was taken for %+v", have)
	}
	if _, err := r.client.Job(context.Background(), "2"); err != nil {
		t.Errorf("root does not see its job: %v", err)
	}
}

// A user without a name is called by her number.
func TestUserName(t *testing.T) {
	if have := userName(4_123_456_789); have != "4123456789" {
		t.Errorf("have %q", have)
	}
	if have := userName(0); have != "root" {
		t.Errorf("have %q", have)
	}
}
