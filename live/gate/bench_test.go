//go:build unix

package gate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// streams is how many streams go on at once in benchmarks.
const streams = 200

// paced is a server whose streams have a token in each step, all in the same instant, as a batch has. Each token tells when it
// was sent.
type paced struct {
	tokens int
	every  time.Duration // 0: as fast as it goes
	began  time.Time
}

func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for i := range p.tokens {
		if p.every > 0 {
			time.Sleep(time.Until(p.began.Add(time.Duration(i+1) * p.every)))
		}
		fmt.Fprintf(w, "data: {\"id\":\"cmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}],\"sent\":%d}\n\n", time.Since(p.began))
		if rc.Flush() != nil {
			return
		}
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// ways are the ways to a server: straight, through a proxy that does nothing but pass on, and through a gate.
func ways(b *testing.B, upstream string) map[string]func(way string) (url, key string) {
	to, err := url.Parse(upstream)
	if err != nil {
		b.Fatal(err)
	}
	return map[string]func(string) (string, string){
		"direct": func(string) (string, string) { return upstream, "" },
		"proxy": func(string) (string, string) {
			p := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
			b.Cleanup(p.Close)
			return p.URL, ""
		},
		"gate": func(string) (string, string) {
			var clients []string
			for i := range 20 {
				clients = append(clients, fmt.Sprint("c", i))
			}
			h := newHouse(b, upstream, Options{InFlight: 1 << 24, Reserve: 1, times: usualTimes()}, clients...)
			return h.url, h.keys["c0"]
		},
	}
}

// used is the CPU time of this process so far.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStreams is what a token costs at 200 streams as fast as they go, client and server included; op is a token, and
// cpu-ns/op is its CPU time, which other work on the machine does not change.
func BenchmarkStreams(b *testing.B) {
	for _, way := range []string{"direct", "proxy", "gate"} {
		b.Run(way, func(b *testing.B) {
			p := &paced{tokens: max(1, b.N/streams), began: time.Now()}
			s := httptest.NewServer(p)
			b.Cleanup(s.Close)
			url, key := ways(b, s.URL)[way](way)
			b.ResetTimer()
			before := used(b)
			run(b, p, url, key)
			b.ReportMetric(float64(used(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkDelay is how long a token is on its way at 200 streams that have one each 50 ms, from when the server writes it to when
// the client has read it; us/token is the mean.
func BenchmarkDelay(b *testing.B) {
	for _, way := range []string{"direct", "proxy", "gate"} {
		b.Run(way, func(b *testing.B) {
			p := &paced{tokens: max(1, b.N/streams), every: 50 * time.Millisecond}
			s := httptest.NewServer(p)
			b.Cleanup(s.Close)
			url, key := ways(b, s.URL)[way](way)
			b.ResetTimer()
			p.began = time.Now().Add(300 * time.Millisecond) // when all streams are there
			delay, n := run(b, p, url, key)
			b.ReportMetric(float64(delay.Microseconds())/float64(n), "us/token")
		})
	}
}

// run reads all streams, and tells how long tokens were on their way in all, and how many there were.
func run(b *testing.B, p *paced, url, key string) (time.Duration, int64) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var delay, n atomic.Int64
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			r, err := http.NewRequestWithContext(context.Background(), "POST", url+"/v1/chat/completions", bytes.NewReader([]byte(`{"messages":[{"role":"user","content":"hello"}],"stream":true,"max_tokens":100000}`)))
			if err != nil {
				b.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+key)
			resp, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			seen := 0
			lines := bufio.NewReader(resp.Body)
			for {
				line, err := lines.ReadSlice('\n')
				if err != nil {
					break
				}
				if _, text, ok := bytes.Cut(line, []byte(`"sent":`)); ok {
					sent, _ := strconv.ParseInt(string(bytes.TrimRight(text, "}\n")), 10, 64)
					delay.Add(int64(time.Since(p.began)) - sent)
					seen++
				}
			}
			n.Add(int64(seen))
			if seen != p.tokens {
				b.Errorf("%d tokens came of %d: %d", seen, p.tokens, resp.StatusCode)
			}
		})
	}
	all.Wait()
	return time.Duration(delay.Load()), n.Load()
}
