document.addEventListener('securitypolicyviolation', (broken) => {
  console.error(`Content-Security-Policy: ${broken.violatedDirective} forbids ${broken.blockedURI || 'inline'}`
    + ` at ${broken.sourceFile}:${broken.lineNumber}`);
});
