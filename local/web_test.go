package local_test

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/api/web"
	"github.com/norn-scheduler/norn/internal/browser"
	"github.com/norn-scheduler/norn/internal/longtest"
)

// The page in a browser shows what this daemon does: who holds its device, who waits and why,
// what a job writes as it writes it; and a job that is cancelled there is.
func TestPage(t *testing.T) {
	longtest.Skip(t)
	browser.Path(t)
	s := newStorm(t, io.Discard)
	spec := s.sh(3, "echo first line; "+awaits("go")+"; echo second line; "+awaits("enough"))
	spec.Name, spec.Estimate = "holder", 3600
	holder := s.submit(spec)
	waits := s.sh(3, "true")
	waits.Name, waits.Estimate = "waiter", 7200
	waiter := s.submit(waits)
	s.running(holder, 1)

	cl, err := client.New(filepath.Join(s.setup.State, "norn.sock"), "", "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gate, link := web.NewGate(l.Addr().String(), cl.Proxy(), time.Now)
	srv := &http.Server{Handler: gate}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })

	p := browser.OpenURL(t, link, "http://"+l.Addr().String(), browser.Window{Width: 1280, Height: 900})
	p.Says("#glance", "3 of 3 devices in use. 1 job runs, 1 job waits. The next start is expected at")
	p.Says("#devices", "holder")
	p.Says("#waiting", "3 GPUs")
	p.Click(`#running a`)
	p.Says("h1", holder+" holder")
	p.Says("#life", "starts on slot0")
	p.Says("#log", "first line")
	s.make("go")
	p.Says("#log", "second line")
	p.Press("Cancel")
	p.Says("dialog", "End job "+holder)
	p.Click("dialog .strong")
	p.Says(".top", "cancelled")
	s.until(waiter, api.Done)
	p.Click(`nav a[href="#/history"]`)
	p.Says("#ended", "waiter")
	p.Check()
}
