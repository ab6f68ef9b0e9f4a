// Leads from the page with the preview of a broken calculation (off.html) to the calculator, with the same state.
location.replace(`../${location.hash}`);
