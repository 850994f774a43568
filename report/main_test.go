package report

import (
	"os"
	"testing"

	inbrowser "github.com/norn-scheduler/norn/internal/browser"
)

func TestMain(m *testing.M) { os.Exit(inbrowser.Main(m)) }
