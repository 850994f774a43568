package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/browser"
	"github.com/norn-scheduler/norn/internal/longtest"
)

// One click says what the usual policies would have made of the past, in a sentence and a
// table; another policy and settings are asked for, and what is left is given up.
func TestWhatIf(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	p := open(t, g.link, g.origin, desktop)
	p.Says("#about", "What if another?")
	p.Press("What if another?")
	p.Says("#glance", "47.1 % earlier")
	p.Says("#note", "50 jobs from")
	p.Says("#trust", "off by +0.2%")
	for _, row := range []string{"as it was what happened 1h23m", "fifo, simulated", "srtf 44m5s −47.1 %", "tiresias"} {
		p.Until(fmt.Sprintf(`document.querySelector('#runs').innerText.split(/\s+/).join(' ').includes(%q)`, row))
	}
	p.Says("#gains", "boris")
	p.Says("#changes", "17 eval <b>")
	p.Says("#rests", "the same moments")
	if n := p.rows(); n > 100 {
		t.Errorf("the document has %d rows", n)
	}
	p.photograph("what-if")
	p.Media("", "dark")
	p.photograph("what-if-dark")
	p.Until(`document.querySelectorAll('#policy option').length > 40`)
	choose := func(policy, settings string) {
		browser.Eval[bool](p.Page, fmt.Sprintf(`(() => {
			const pick = document.querySelector('#policy'), s = document.querySelector('#settings');
			pick.value = %q;
			pick.dispatchEvent(new Event('change'));
			s.value = %q;
			return s.dispatchEvent(new Event('input'));
		})()`, policy, settings))
	}
	choose("tiresias", "limits=60")
	p.Press("What if?")
	p.Says("#runs", "tiresias(limits=60)")
	p.Until(`!document.querySelector('#sizes').checkVisibility()`)
	grow := func(to string) {
		browser.Eval[bool](p.Page, fmt.Sprintf(`(() => { const s = document.querySelector('#size'); s.value = %q; return s.dispatchEvent(new Event('change')); })()`, to))
	}
	grow("1gpu,2gpus,4gpus")
	p.Press("What if?")
	p.Says("#enough", "+1 GPU would save 41% of the waiting")
	p.Says("#enough", "no longer under srtf")
	for _, row := range []string{"fifo as it is 4 1h8m", "fifo +1 GPU 5 40m 41 % 2"} {
		p.Until(fmt.Sprintf(`document.querySelector('#sizes').innerText.split(/\s+/).join(' ').includes(%q)`, row))
	}
	p.photograph("what-if-sizes")
	grow("")
	choose("gavel", "")
	p.Press("What if?")
	p.Says("#note", "simulates the past on the side")
	p.Press("Stop")
	p.Says("#note", "50 jobs from")
	p.Press("What if?")
	p.Says("#note", "simulates the past on the side")
	p.Click(`nav a[href="#/"]`)
	p.Says("#waiting", "llama")
	want := "plan [fifo srtf tiresias]|plan [tiresias(limits=60)]|plan [tiresias(limits=60)] 1gpu,2gpus,4gpus|plan [gavel]|given up|plan [gavel]|given up"
	for told := ""; told != want; p.Frame() { // until the test runs out of time
		g.with(func() { told = strings.Join(g.orders, "|") })
	}
	p.Click(`nav a[href="#/what-if"]`)
	p.Says("#runs", "tiresias(limits=60)") // the last answer is still there
	p.Check()
}

// The view fits a phone, and nobody but an operator is offered it.
func TestWhatIfOnPhone(t *testing.T) {
	longtest.Skip(t)
	g := gate(t)
	someJobs(g.norn)
	p := open(t, g.link, g.origin, phone)
	p.Says("#who", "operator")
	p.Click(`nav a[href="#/what-if"]`)
	p.Says("#glance", "47.1 % earlier")
	p.NoOverflow(".scroll")
	p.photograph("what-if-phone")
	p.Check()

	s := serve(t)
	someJobs(s.norn)
	q := open(t, s.tcp+"/", s.tcp, desktop)
	q.Says("#sign-in", "Your token")
	q.Forget()
	browser.Eval[bool](q.Page, fmt.Sprintf(`(() => { document.querySelector('#token').value = %q; return true; })()`, annasToken))
	q.Press("Go on")
	q.Says("#who", "anna")
	if words := q.Words(); strings.Contains(words, "What if") {
		t.Errorf("anna is offered what she may not do:\n%s", words)
	}
	browser.Eval[bool](q.Page, `(() => { location.hash = '#/what-if'; return true; })()`)
	q.Says("#glance", "they are for operators")
	q.Check()
	s.with(func() {
		if len(s.orders) > 0 {
			t.Errorf("Norn was told %q", s.orders)
		}
	})
}
