package gate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// startModel starts a small real model that serves the OpenAI API (testdata/model.py), with so many requests in its batch.
func startModel(t *testing.T, slots int) string {
	t.Helper()
	const python = "/usr/bin/python3" // that of the distribution has its PyTorch
	if err := exec.Command(python, "-c", "import torch").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("PyTorch is missing: continuous integration needs it")
		}
		t.Skip("PyTorch is missing")
	}
	cmd := exec.Command(python, "testdata/model.py", "--slots", fmt.Sprint(slots))
	cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the model has not started")
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// Requests of the flood tests: letters of input, and of output.
const (
	floodInput  = 6
	floodOutput = 10
	floodSlots  = 8
	oneRequest  = floodInput + 2*floodOutput // service
)

// crowd is clients at a server, with all that happens in the order in which it does.
type crowd struct {
	t          *testing.T
	model, url string
	key        func(client string) string
	all        sync.WaitGroup
	mu         sync.Mutex
	done       map[string]int         // by client: service so far
	came       map[int]seen           // by request
	firs       map[int]map[string]int // by request: service of each client when its first token was there
	n          int
}

// seen is a request when it came.
type seen struct {
	client string
	served map[string]int // service of each client then
}

func newCrowd(t *testing.T, model, url string, key func(string) string) *crowd {
	return &crowd{t: t, model: model, url: url, key: key, done: map[string]int{}, came: map[int]seen{}, firs: map[int]map[string]int{}}
}

// copyOf is the service of each client now.
func (c *crowd) copyOf() map[string]int {
	out := map[string]int{}
	for k, v := range c.done {
		out[k] = v
	}
	return out
}

// send sends a request of a client, and counts what comes. Input counts with the first token.
func (c *crowd) send(client string) {
	c.mu.Lock()
	id := c.n
	c.n++
	c.came[id] = seen{client, c.copyOf()}
	c.mu.Unlock()
	c.all.Go(func() {
		r, err := http.NewRequest("POST", c.url+"/v1/completions", strings.NewReader(fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":true}`, strings.Repeat("a", floodInput), floodOutput)))
		if err != nil {
			c.t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+c.key(client))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			c.t.Error(err)
			return
		}
		defer resp.Body.Close()
		n := 0
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if !strings.Contains(lines.Text(), `"text"`) {
				continue
			}
			c.mu.Lock()
			if n++; n == 1 {
				c.firs[id] = c.copyOf()
				c.done[client] += floodInput
			}
			c.done[client] += 2
			c.mu.Unlock()
		}
		if n != floodOutput {
			c.t.Errorf("%s: %d tokens came of %d, status %d", client, n, floodOutput, resp.StatusCode)
		}
	})
}

// between is the service that clients were given from when a request came to its first token.
func (c *crowd) between(id int, which func(client string) bool) int {
	sum := 0
	for client, n := range c.firs[id] {
		if which(client) {
			sum += n - c.came[id].served[client]
		}
	}
	return sum
}

// neighbours are the clients beside the one that floods.
func neighbours() []string {
	var out []string
	for i := range 49 {
		out = append(out, fmt.Sprintf("c%02d", i))
	}
	return out
}

// tell tells the model something.
func (c *crowd) tell(path string) {
	c.t.Helper()
	resp, err := http.Get(c.model + path)
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
}

// flooded has one client flood with so many requests, and then 49 others send one each, while the model is paused. It tells the most service that the flood was
// given while one of them waited for its first token, and the most that all others were given.
func (c *crowd) flooded(flood int, there func(n int) bool) (ofFlood, ofAll int) {
	c.tell("/pause")
	for range flood {
		c.send("flood")
	}
	until(c.t, "the flood is there", func() bool { return there(flood) })
	for _, client := range neighbours() {
		c.send(client)
	}
	until(c.t, "all are there", func() bool { return there(flood + len(neighbours())) })
	c.tell("/go")
	c.all.Wait()
	for id, s := range c.came {
		if s.client != "flood" || flood == 1 {
			ofFlood = max(ofFlood, c.between(id, func(o string) bool { return o == "flood" && o != s.client }))
			ofAll = max(ofAll, c.between(id, func(o string) bool { return o != s.client }))
		}
	}
	return ofFlood, ofAll
}

// TestFlood has 50 clients at a small real model, of whom one floods it. Behind the gate the flood is given at most 2U of service while
// somebody else waits for a first token, and she waits at most 2U longer than beside 49 clients of equal rate. Without the gate
// she waits for the flood, however much it is, but for those beside whom she runs.
func TestFlood(t *testing.T) {
	longtest.Skip(t)
	model := startModel(t, floodSlots)
	const pool = floodSlots * (floodInput + floodOutput)
	const u = 2 * pool // max(w_p L_in, w_q M)
	received := func(from int) func(int) bool {
		return func(n int) bool {
			resp, err := http.Get(model + "/v1/models")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			var got struct{ Received int }
			return json.NewDecoder(resp.Body).Decode(&got) == nil && got.Received >= from+n
		}
	}
	sofar := 0
	without := func(flood int) int {
		c := newCrowd(t, model, model, func(string) string { return "none" })
		ofFlood, _ := c.flooded(flood, received(sofar))
		sofar += flood + 49
		return ofFlood
	}
	for _, flood := range []int{40, 80} {
		got := without(flood)
		t.Logf("without the gate, a flood of %d is given %d units while somebody waits", flood, got)
		if got < (flood-floodSlots)*oneRequest || got <= 2*u { // the last ones run beside those of others
			t.Errorf("without the gate, a flood of %d requests was given only %d units while others waited", flood, got)
		}
	}
	with := func(flood int) (ofFlood, ofAll int) {
		h := newHouse(t, model, Options{InFlight: pool, Reserve: floodOutput, Waiting: 1000}, append(neighbours(), "flood", "root!")...)
		// What a prompt has in tokens is learnt from the usage, by whoever sends any; here it is known.
		h.line.mu.Lock()
		for _, a := range h.line.accounts {
			a.perByte = 1
		}
		h.line.mu.Unlock()
		c := newCrowd(t, model, h.url, func(client string) string { return h.keys[client] })
		ofFlood, ofAll = c.flooded(flood, func(n int) bool {
			h.line.mu.Lock()
			defer h.line.mu.Unlock()
			return h.line.next >= n
		})
		sofar += flood + 49
		return ofFlood, ofAll
	}
	_, equal := with(1)
	for _, flood := range []int{40, 80} {
		ofFlood, ofAll := with(flood)
		t.Logf("a flood of %d: given %d units while somebody waited (2U is %d); all others %d, beside equal ones %d", flood, ofFlood, 2*u, ofAll, equal)
		if ofFlood > 2*u || ofAll > equal+2*u {
			t.Errorf("with the gate, a flood of %d requests was given %d units while somebody waited, and all others %d; 2U is %d, beside equal ones it is %d", flood, ofFlood, ofAll, 2*u, equal)
		}
	}
}
