package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/browser"
	"github.com/norn-scheduler/norn/internal/longtest"
)

var desktop, phone = browser.Window{Width: 1280, Height: 900}, browser.Window{Width: 390, Height: 844, Phone: true}

// page is a page of Norn open in a browser.
type page struct {
	*browser.Page
	t *testing.T
}

// open opens an address of an origin.
func open(t *testing.T, address, origin string, w browser.Window) *page {
	t.Helper()
	return &page{browser.OpenURL(t, address, origin, w), t}
}

// rows is how many rows of tables and lists the document has.
func (p *page) rows() int {
	p.t.Helper()
	return browser.Eval[int](p.Page, `document.querySelectorAll('tr, li').length`)
}

// photograph keeps a picture of the page for a reader, where NORN_PICTURES names a folder.
func (p *page) photograph(name string) {
	p.t.Helper()
	if dir := os.Getenv("NORN_PICTURES"); dir != "" {
		p.Frame()
		if err := os.WriteFile(filepath.Join(dir, name+".png"), p.Picture(), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// someJobs has a machine with work: two jobs run, one of them anna's, and three wait.
func someJobs(n *norn) {
	n.with(func() {
		n.node.Devices[0].Jobs, n.node.Devices[1].Jobs, n.node.Devices[2].Jobs = []string{"1"}, []string{"1"}, []string{"2"}
		for i := range 3 {
			d := &n.node.Devices[i]
			d.Measured, d.Util, d.Used, d.Celsius, d.Watts = true, 0.93-0.3*float64(i), api.Bytes(90-20*i)<<30, 61, 512
		}
		n.expect["3"], n.expect["4"] = time.Now().Add(40*time.Minute), time.Now().Add(3*time.Hour)
	})
	a := job("1", "bert-large", "anna", api.Running)
	a.Devices, a.Allocated, a.Run, a.Ran, a.Started, a.ExpectEnd = []string{"gpu0", "gpu1"}, 2, 1, 5000, began.Add(6*time.Minute), time.Now().Add(40*time.Minute)
	a.Progress = &api.Report{Step: 41250, Steps: 90000, Loss: 1.732, StepTime: 0.118, Epoch: 1.4}
	n.put(a, "submit", "submitted: 2 GPUs")
	n.put(a, "start", "starts on gpu0 and gpu1")
	b := job("2", "sweep <b>", "boris", api.Running)
	b.Devices, b.Allocated, b.GPUs, b.Run, b.Ran = []string{"gpu2"}, 1, api.Fixed(1), 3, 700
	n.put(b, "start", "starts on gpu2")
	for i, name := range []string{"resnet-ablation", "llama-finetune-with-a-rather-long-name-2026-03"} {
		w := job(fmt.Sprint(3+i), name, "anna", api.Waiting)
		w.Reason, w.Wait = "needs 2 GPUs, 1 is free", 4200
		n.put(w, "submit", "submitted: 2 GPUs")
	}
	held := job("5", "", "boris", api.Held)
	held.Reason = "held by boris"
	n.put(held, "hold", "is held")
}

// The view of the present shows devices with who holds them, and the queue with reasons and
// expected starts, and follows what happens.
func TestNow(t *testing.T) {
	g := gate(t)
	someJobs(g.norn)
	p := open(t, g.link, g.origin, desktop)
	p.Says("#link", "live")
	p.Says("#glance", "3 of 4 devices in use. 2 jobs run, 2 jobs wait, 1 held.")
	p.Says("#devices", "93 %")
	p.Says("#waiting", "needs 2 GPUs, 1 is free")
	p.Says("#glance", "(job 3)")
	if address := browser.Eval[string](p.Page, `location.href`); address != g.origin+"/" {
		t.Errorf("the address still tells the token: %s", address)
	}
	p.photograph("now")
	g.put(job("6", "fresh", "anna", api.Waiting), "submit", "submitted: 2 GPUs")
	p.Says("#waiting", "fresh")
	p.Says("#happened", "submitted: 2 GPUs")
	done := job("1", "bert-large", "anna", api.Done)
	g.with(func() { g.node.Devices[0].Jobs, g.node.Devices[1].Jobs = nil, nil })
	g.put(done, "end", "ends: done")
	p.Says("#glance", "1 of 4 devices in use. 1 job runs, 3 jobs wait")
	p.Until(`!document.querySelector('#running').innerText.includes('bert-large')`)
	p.Media("", "dark")
	p.photograph("now-dark")
	p.Check()
}

// Waiting jobs stand in the order in which they are expected to start, and those of which that
// cannot be told behind them in the order of submission; the page says which it is.
func TestQueueInOrder(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.with(func() { g.expect = map[string]time.Time{} })
	g.put(job("6", "short", "anna", api.Waiting), "submit", "submitted: 2 GPUs")
	p := open(t, g.link, g.origin, desktop)
	order := `[...document.querySelectorAll('#waiting tbody tr b')].map((e) => e.innerText).join(' ')`
	p.Says("#order", "when jobs start cannot be told")
	p.Until(order + ` === '3 4 5 6'`)
	g.with(func() {
		g.expect["6"], g.expect["4"] = time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	})
	p.Says("#order", "First 2 jobs in the order in which srtf is expected to start them")
	p.Until(order + ` === '6 4 3 5'`)
	p.Says("#glance", "(job 6)")
	p.photograph("queue")
	p.Check()
}

// The page fits a phone.
func TestNowOnPhone(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.with(func() { g.trouble = []string{"gpu3 has not answered for 5 minutes"} })
	p := open(t, g.link, g.origin, phone)
	p.Says("#waiting", "llama")
	p.Says("#trouble", "has not answered")
	p.Says("#glance", "(job 3)")
	p.NoOverflow("none")
	p.photograph("now-phone")
	p.Check()
}

// 10,000 jobs wait, and the document has at most 100 rows.
func TestManyJobs(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.with(func() {
		for i := range 10_000 {
			j := job(fmt.Sprint(1000+i), fmt.Sprintf("trial-%d", i), "anna", api.Waiting)
			j.Submitted, j.Since, j.StopMode, j.Reason = began, began, "never", "is behind others"
			g.jobs = append(g.jobs, j)
		}
	})
	p := open(t, g.link, g.origin, desktop)
	p.Says("#h-waiting", "Waiting: 10,003")
	p.Says("#waiting", "1 to 40 of 10,003")
	check := func() {
		t.Helper()
		if n := p.rows(); n > 100 {
			t.Errorf("the document has %d rows", n)
		}
	}
	check()
	p.Press("Later waiting jobs")
	p.Says("#waiting", "41 to 80 of 10,003")
	check()
	browser.Eval[bool](p.Page, `(() => { const f = document.querySelector('#filter'); f.value = 'trial-9998'; return f.dispatchEvent(new Event('input')); })()`)
	p.Says("#waiting", "trial-9998")
	p.Until(`document.querySelectorAll('#waiting tbody tr').length === 1`)
	g.put(job("99999", "trial-99980", "anna", api.Waiting), "submit", "submitted")
	p.Until(`document.querySelectorAll('#waiting tbody tr').length === 2`)
	check()
	g.with(func() {
		if g.lists != 1 {
			t.Errorf("all jobs were asked for %d times", g.lists)
		}
	})
	p.Check()
}

// What happens while the page is out of touch is there when it is in touch again: jobs that
// came and went, and every event once.
func TestReconnect(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	p := open(t, g.link, g.origin, desktop)
	p.Says("#link", "live")
	g.line.cut()
	p.Says("#link", "out of touch")
	g.put(job("3", "resnet-ablation", "anna", api.Cancelled), "cancel", "is cancelled")
	for i := range 5 {
		g.put(job(fmt.Sprint(7+i), fmt.Sprintf("missed-%d", i), "anna", api.Waiting), "submit", fmt.Sprintf("submitted as missed %d", i))
	}
	g.line.mend()
	p.Says("#link", "live")
	p.Says("#waiting", "missed-4")
	p.Says("#happened", "missed 4")
	words := p.Words()
	for i := range 5 {
		if n := strings.Count(words, fmt.Sprintf("submitted as missed %d", i)); n != 1 {
			t.Errorf("event %d is told %d times", i, n)
		}
	}
	if strings.Contains(browser.Eval[string](p.Page, `document.querySelector('#waiting').innerText`), "resnet-ablation") {
		t.Error("a job that was cancelled still waits")
	}
	for _, problem := range p.Forget() { // the browser's own word on requests that were cut
		if !strings.Contains(problem, "Failed to load resource") {
			t.Error(problem)
		}
	}
}

// Over TCP the page asks for a token, and shows what its user may see: of others' jobs
// nothing but which devices they hold.
func TestOthersJobs(t *testing.T) {
	longtest.Skip(t)
	s := serve(t)
	someJobs(s.norn)
	p := open(t, s.tcp+"/", s.tcp, desktop)
	p.Says("#sign-in", "Your token")
	p.Forget() // that a request was answered with 401
	enter := func(token string) {
		browser.Eval[bool](p.Page, fmt.Sprintf(`(() => { document.querySelector('#token').value = %q; return true; })()`, token))
		p.Press("Go on")
	}
	enter("wrong")
	p.Says("#said", "the token is not known here")
	p.Forget()
	enter(annasToken)
	p.Says("#who", "anna")
	p.Says("#devices", "2 of another user")
	p.Says("#waiting", "resnet-ablation")
	s.put(job("8", "secret", "boris", api.Waiting), "submit", "submitted by boris")
	s.put(job("9", "mine", "anna", api.Waiting), "submit", "submitted by anna")
	p.Says("#waiting", "mine")
	for _, hidden := range []string{"boris", "sweep", "secret", "Drain"} {
		if words := p.Words(); strings.Contains(words, hidden) {
			t.Errorf("anna reads %q:\n%s", hidden, words)
		}
	}
	p.Check()
	browser.Eval[bool](p.Page, `(() => { location.hash = '#/job/2'; return true; })()`)
	p.Says("#reason-of", "there is no job 2")
	for _, hidden := range []string{"boris", "sweep", "gpu2", "Cancel"} {
		if words := p.Words(); strings.Contains(words, hidden) {
			t.Errorf("of another user's job anna reads %q:\n%s", hidden, words)
		}
	}
}

// Words of users are words on the page, whatever they look like, and the page makes no
// program of any text.
func TestHostileWords(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	hostile := `"><img src=x onerror="document.title='gone'"><script>document.title='gone'</script>${1}` + "\u202e\x1b[31m"
	j := job("1", hostile, hostile, api.Waiting)
	j.Reason, j.Command, j.Tenant = hostile, []string{hostile}, hostile
	g.with(func() {
		g.trouble, g.node.Note, g.node.Devices[0].Note, g.node.Devices[0].Jobs = []string{hostile}, hostile, hostile, []string{hostile}
	})
	g.put(j, "submit", hostile)
	p := open(t, g.link, g.origin, desktop)
	p.Says("#waiting", "onerror")
	p.Says("#happened", "onerror")
	if n := browser.Eval[int](p.Page, `document.querySelectorAll('img, main script').length`); n > 0 {
		t.Errorf("%d elements were made of words", n)
	}
	for _, attempt := range []string{
		`(() => { try { document.createElement('p').innerHTML = '<b>x</b>'; return 'taken'; } catch (e) { return 'refused'; } })()`,
		`(() => { try { const s = document.createElement('script'); s.textContent = 'document.title = 1'; document.body.append(s); return 'taken'; } catch (e) { return 'refused'; } })()`,
		`new Promise((done) => { const i = document.createElement('img'); i.onload = () => done('taken'); i.onerror = () => done('refused'); i.src = 'http://127.0.0.1:9/x.png'; })`,
		`fetch('http://127.0.0.1:9/').then(() => 'taken', () => 'refused')`,
	} {
		if answer := browser.Eval[string](p.Page, attempt); answer != "refused" {
			t.Errorf("%s: %s", attempt, answer)
		}
	}
	for _, problem := range p.Forget() { // the browser's own word on what it refused
		if !strings.Contains(problem, "Content Security Policy") && !strings.Contains(problem, "Trusted") && !strings.Contains(problem, "127.0.0.1:9") {
			t.Error(problem)
		}
	}
	if title := browser.Eval[string](p.Page, `document.title`); title != "box: 0 run, 1 wait" {
		t.Errorf("the title is %q", title)
	}
}

// A job's page tells how it stands and why, its progress, its devices and what it writes, all
// of it as it goes on; its buttons do what they say after a question.
func TestJobPage(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.with(func() {
		g.outputs["1"] = "\x1b[31mepoch 1\x1b[0m loss 2.1\n 10 %\r 20 %\r 30 %\nepoch 2 \u202eloss 1.9\n"
	})
	p := open(t, g.link, g.origin, desktop)
	p.Says("#running", "bert-large")
	p.Click(`#running a[href="#/job/1"]`)
	p.Says("h1", "1 bert-large")
	p.Says("#progress", "46 %, step 41,250 of 90,000")
	p.Says("#progress", "1.732")
	p.Says("#use", "93 % in use")
	p.Says("#life", "waited")
	p.Says("#life", "starts on gpu0")
	p.Says("#log", "epoch 2 loss 1.9")
	if log := p.Text("#log"); log != "epoch 1 loss 2.1\n 30 %\nepoch 2 loss 1.9\n" {
		t.Errorf("the output is shown as %q", log)
	}
	g.with(func() { g.outputs["1"] += "epoch 3 loss 1.7\n" })
	p.Says("#log", "epoch 3 loss 1.7")
	p.photograph("job")
	j := job("1", "bert-large", "anna", api.Running)
	j.Devices, j.Run, j.Ran, j.Progress = []string{"gpu0", "gpu1"}, 1, 5100, &api.Report{Step: 45000, Steps: 90000, Loss: 1.5}
	g.put(j, "config", "trains with batch 64")
	p.Says("#progress", "50 %, step 45,000 of 90,000")
	p.Press("Cancel")
	p.Says("dialog", "End job 1 for good?")
	p.photograph("job-question")
	p.Press("Leave it")
	p.Press("Cancel")
	p.Until(`document.querySelector('dialog').open`)
	p.Click("dialog .strong")
	p.Says(".top", "cancelled")
	p.Until(`document.querySelectorAll('.top button').length === 0`)
	g.with(func() {
		if len(g.orders) != 1 || !strings.HasPrefix(g.orders[0], "cancel 1 by") {
			t.Errorf("Norn was told %q", g.orders)
		}
	})
	p.Check()
}

// lived has a job wait, run, make way and run elsewhere, with a loss that falls.
func lived(n *norn, id string, over time.Time) {
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	n.with(func() {
		n.course[id] = []api.Stretch{
			{From: began, To: at(6), State: api.Waiting}, {From: at(6), To: at(30), State: api.Running, GPUs: 2, On: "gpu0, gpu1"}, {From: at(30), To: at(31), State: api.Stopping, GPUs: 2, On: "gpu0, gpu1"},
			{From: at(31), To: at(50), State: api.Waiting}, {From: at(50), To: over, State: api.Running, GPUs: 2, On: "gpu2, gpu3"},
		}
		n.losses[id] = nil
		for i := range 40 {
			n.losses[id] = append(n.losses[id], api.LossPoint{Step: int64(1000 * (i + 1)), Loss: 1.7 + 4/float64(i+1) + 0.05*float64(i%3)})
		}
	})
}

// A job's page draws the losses that it reported and where it was from when to when, also
// after it has ended, with words for who does not see them.
func TestCharts(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	lived(g.norn, "1", time.Time{})
	p := open(t, g.link, g.origin, desktop)
	p.Says("#running", "bert-large")
	p.Click(`#running a[href="#/job/1"]`)
	p.Says("#progress", "Loss")
	p.Until(`document.querySelector('#progress svg').getAttribute('aria-label') === 'Loss from 5.7 at step 1,000 to 1.8 at step 40,000, lowest 1.8'`)
	p.Until(`[...document.querySelectorAll('#life .lane > small')].map((e) => e.innerText).join('|') === 'no device|gpu0, gpu1|gpu2, gpu3'`)
	p.Until(`document.querySelectorAll('#life .bar-of').length === 5`)
	// The bars of one lane lie where the times are: the job waited from the beginning to a
	// fifteenth of 90 minutes, and a last bar reaches to now.
	p.Until(`(() => {
		const track = document.querySelector('#life .track').getBoundingClientRect(), bars = [...document.querySelectorAll('#life .bar-of')].map((e) => e.getBoundingClientRect());
		return Math.abs(bars[0].left - track.left) < 1 && Math.abs(bars[0].width / track.width - 6 / 90) < 0.01 && Math.abs(bars.at(-1).right - track.right) < 3;
	})()`)
	p.photograph("charts")
	p.Media("", "dark")
	p.photograph("charts-dark")
	if faults := browser.Eval[[]string](p.Page, accessible); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	lived(g.norn, "1", time.Now())
	done := job("1", "bert-large", "anna", api.Done)
	done.Ended, done.Wait, done.Ran = time.Now(), 1500, 3900
	g.put(done, "end", "ends: done")
	p.Says(".top", "done")
	p.Until(`document.querySelectorAll('#life .bar-of').length === 5 && document.querySelector('#progress svg') !== null`)
	p.Check()
}

// The drawings fit a phone.
func TestChartsOnPhone(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	lived(g.norn, "1", time.Time{})
	p := open(t, g.link, g.origin, phone)
	p.Says("#running", "bert-large")
	p.Click(`#running a[href="#/job/1"]`)
	p.Says("#life", "gpu2, gpu3")
	p.NoOverflow("none")
	p.photograph("charts-phone")
	p.Check()
}

// A waiting job is held and released again; its page says when it starts, and fits a phone.
func TestHoldOnPhone(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	p := open(t, g.link, g.origin, phone)
	p.Says("#waiting", "llama")
	p.Click(`#waiting a[href="#/job/4"]`)
	p.Says("#reason-of", "Needs 2 GPUs, 1 is free. It is expected to start at")
	p.Says("#why", "the end of job 1")
	p.NoOverflow("none")
	p.photograph("job-phone")
	p.Press("Hold")
	p.Until(`document.querySelector('dialog').open`)
	p.Click("dialog .strong")
	p.Says(".top", "held")
	p.Press("Release")
	p.Says(".top", "waiting")
	p.Check()
}

// The history has the jobs that ended in a period, and the hours of each user; the tenants
// are those of Norn.
func TestHistory(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.with(func() {
		g.tenants = []api.Tenant{{Name: "vision", Guarantee: 2, Limit: 4, Weight: 1, Allocated: 2, Waiting: 1, Usage: 12.5}}
		for i := range 120 {
			user, state, ago := "anna", api.Done, time.Duration(i)*time.Hour
			if i%3 == 0 {
				user = "boris"
			}
			if i%10 == 9 {
				state = api.Failed
			}
			j := job(fmt.Sprint(100+i), fmt.Sprintf("old-%d", i), user, state)
			j.Submitted, j.Ended, j.Wait, j.Ran, j.GPUTime, j.StopMode = began.Add(-ago-2*time.Hour), began.Add(-ago), 600, 3600, 7200, "never"
			if state == api.Failed {
				j.Reason = "exit code 1 of task 0"
			}
			g.jobs = append(g.jobs, j)
		}
	})
	p := open(t, g.link, g.origin, desktop)
	p.Says("#link", "live")
	p.Click(`nav a[href="#/history"]`)
	p.Says("#glance", "120 jobs ended, after 240 GPU-hours.")
	p.Says("#users", "anna")
	p.Until(`document.querySelector('#users tbody tr').innerText.split(/\s+/).join(' ').startsWith('anna 160 80 72 8 0 10m')`)
	p.Says("#tenants", "12.5")
	p.Says("#ended", "exit code 1 of task 0")
	p.Says("#ended", "1 to 40 of 120")
	if n := p.rows(); n > 100 {
		t.Errorf("the document has %d rows", n)
	}
	p.photograph("history")
	browser.Eval[bool](p.Page, `(() => { const e = document.querySelector('#period'); e.value = '1'; return e.dispatchEvent(new Event('change')); })()`)
	p.Says("#glance", "23 jobs ended")
	ended := job("1", "bert-large", "anna", api.Done)
	ended.Ended = time.Now()
	g.put(ended, "end", "ends: done")
	p.Says("#ended", "bert-large")
	p.Click(`#ended a[href="#/job/1"]`)
	p.Says("h1", "1 bert-large")
	p.Check()
}

// An operator drains a device with a reason, by the keyboard alone, and takes it back.
func TestDrain(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.norn.node.Devices[2].Slow, g.norn.node.Devices[2].SlowJobs = 1.31, 4
	p := open(t, g.link, g.origin, desktop)
	p.Says("#devices", "gpu3")
	p.Says("#devices", "slow: jobs take 1.31 times as long, as was seen of 4")
	p.Until(`(document.querySelector('[data-key="drain-gpu3"]').focus(), document.activeElement.dataset.key === 'drain-gpu3')`)
	p.Do(chromedp.KeyEvent(kb.Enter))
	p.Says("dialog", "Start nothing new on gpu3?")
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until(`!document.querySelector('dialog').open && document.activeElement.dataset.key === 'drain-gpu3'`)
	p.Do(chromedp.KeyEvent(kb.Enter))
	p.Until(`document.querySelector('dialog').open`)
	p.Do(chromedp.Focus(chromedp.CSS("#reason")), chromedp.KeyEvent("fan is loud"), chromedp.KeyEvent(kb.Enter))
	p.Says("#devices", "takes no new work: fan is loud")
	p.Says("#said", "gpu3 takes no new work.")
	p.Until(`!document.querySelector('dialog').open`)
	p.photograph("drained")
	p.Press("Take gpu3 back into use")
	p.Until(`!document.querySelector('#devices').innerText.includes('fan is loud')`)
	g.with(func() {
		if len(g.orders) != 2 || !strings.HasPrefix(g.orders[0], `drain [gpu3] false "fan is loud" by `) || !strings.HasPrefix(g.orders[1], `drain [gpu3] true "" by `) {
			t.Errorf("Norn was told %q", g.orders)
		}
	})
	p.Check()
}

// Of a cluster the page has nodes in place of devices, 25 at once, with what is in use and how
// many jobs of others are there.
func TestCluster(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	g.with(func() {
		g.node = api.Node{Name: "cluster", Health: "up"}
		for i := range 60 {
			n := api.Node{Name: fmt.Sprintf("a-%d", i+1), Health: "up", Type: "NVIDIA H200", GPUs: 8, GPUsAllocated: float64(i % 9)}
			if i == 1 {
				n.Health, n.Note = "drained", "new fans"
			}
			if i == 2 {
				n.Jobs, n.Others = []string{"1", "2"}, 3
			}
			g.nodes = append(g.nodes, n)
		}
	})
	p := open(t, g.link, g.origin, phone)
	p.Says("#h-devices", "Nodes")
	p.Says("#devices", "drained: new fans")
	p.Says("#devices", "3 of others")
	p.Says("#devices", "1 to 25 of 60")
	p.Press("Later nodes")
	p.Says("#devices", "a-26")
	if n := p.rows(); n > 100 {
		t.Errorf("the document has %d rows", n)
	}
	p.NoOverflow(".scroll")
	p.photograph("cluster-phone")
	p.Check()
}

// Whoever cannot see the page finds a name on all that can be pressed, typed into or read as
// a table, and headings in order; words stand out from their ground by 4.5 to 1, by day and
// by night.
func TestAccessible(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	failed := job("6", "broken", "anna", api.Failed)
	failed.Ended, failed.Submitted, failed.Reason = time.Now(), began, "exit code 1"
	g.put(failed, "end", "ends: failed")
	g.with(func() {
		g.outputs["1"], g.trouble, g.node.Devices[3].Broken = "epoch 1\n", []string{"gpu3 has not answered for 5 minutes"}, true
	})
	p := open(t, g.link, g.origin, desktop)
	for _, view := range []struct{ hash, selector, text string }{{"#/", "#waiting", "llama"}, {"#/job/1", "#log", "epoch 1"}, {"#/history", "#glance", "1 job ended"}, {"#/what-if", "#rests", "the same moments"}} {
		browser.Eval[bool](p.Page, fmt.Sprintf(`(() => { location.hash = %q; return true; })()`, view.hash))
		p.Says(view.selector, view.text)
		for _, scheme := range []string{"light", "dark"} {
			p.Media("", scheme)
			if faults := browser.Eval[[]string](p.Page, accessible); len(faults) > 0 {
				t.Errorf("%s, %s:\n%s", view.hash, scheme, strings.Join(faults, "\n"))
			}
		}
	}
	p.Check()
}

// accessible lists what a reader who cannot see well would miss in the page.
const accessible = `(() => {
	const faults = [];
	const say = (e, why) => faults.push(why + ': ' + e.outerHTML.slice(0, 120));
	const shown = (e) => e.checkVisibility() && e.getClientRects().length;
	for (const e of document.querySelectorAll('button, a, input, select, table, section, [role=img], [role=log]')) {
		if (!shown(e)) continue;
		const label = e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))?.innerText || e.labels?.[0]?.innerText || (/^(BUTTON|A)$/.test(e.tagName) ? e.innerText : '');
		if (!label.trim()) say(e, 'no name');
	}
	let level = 1;
	for (const e of document.querySelectorAll('h1, h2, h3')) {
		if (!shown(e)) continue;
		const now = Number(e.tagName[1]);
		if (now > level + 1) say(e, 'a level of headings is left out');
		level = now;
	}
	const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
	ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => faults.push('two elements are called ' + id));
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const rgb = (colour, under) => { canvas.fillStyle = under || '#fff'; canvas.fillRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/^rgba\(.*, 0\)$|transparent/.test(c)) return c; } return '#fff'; };
	for (const e of document.querySelectorAll('body *')) {
		if (!shown(e) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.disabled) continue;
		const a = light(rgb(getComputedStyle(e).color)), b = light(rgb(ground(e)));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) say(e, 'contrast ' + ratio.toFixed(2));
	}
	return faults;
})()`
