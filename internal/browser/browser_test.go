package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// moving is a page whose button jumps away from under the first press of the mouse, where another one stands then.
const moving = `<!doctype html><title>moving</title><button id="other" hidden>other</button><br><button id="aim">aim</button><script>
let presses = 0, hits = { other: 0, aim: 0 };
addEventListener('mousedown', () => {
	if (presses++) return;
	const other = document.getElementById('other'), aim = document.getElementById('aim');
	other.hidden = false;
	aim.before(other);
	aim.style.marginTop = '200px';
});
for (const name of ['other', 'aim']) document.getElementById(name).addEventListener('click', () => hits[name]++);
</script>`

// A click reaches what it is aimed at, and nothing else, when the page moves between the aim and the click.
func TestClickOnWhatMoves(t *testing.T) {
	longtest.Skip(t)
	path := filepath.Join(t.TempDir(), "moving.html")
	if err := os.WriteFile(path, []byte(moving), 0o644); err != nil {
		t.Fatal(err)
	}
	p := Open(t, path, Window{Width: 800, Height: 600})
	p.Click("#aim")
	if aim, other, presses := Eval[int](p, `hits.aim`), Eval[int](p, `hits.other`), Eval[int](p, `presses`); aim != 1 || other != 0 || presses != 2 {
		t.Errorf("%d clicks on the aim and %d on the other after %d presses; want 1, 0, 2", aim, other, presses)
	}
	p.Check()
}
